"""Verify finds every change of every file, repair makes again what is the view's, and the base is only named."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from view_samples import pack_for, scales_for, snapshot, spec_for, write_pack

from toolkit.checkpoint.progress import Silent
from toolkit.errors import CheckFailedError
from toolkit.views.inspect import Fault, Owner
from toolkit.views.marker import MARKER_FILE
from toolkit.views.materialize import MaterializedView, is_whole, materialize
from toolkit.views.scales.pack import SCALE_FILE
from toolkit.views.spec import ViewSpec
from toolkit.views.store import ViewStore
from toolkit.views.verify import Verdict, repair, verify

INDEX = "model.safetensors.index.json"
WEIGHTS = "model-00001-of-00002.safetensors"
LARGE = "large.bin"  # above the size up to which files are hashed when the view is made


@pytest.fixture
def base(base: Path) -> Path:
    (base / LARGE).write_bytes(os.urandom(5 << 20))
    return base


@pytest.fixture
def view(spec: ViewSpec, store: ViewStore) -> MaterializedView:
    return materialize(spec, store)


def check(store: ViewStore, view: MaterializedView, **options: bool) -> Verdict:
    return verify(store, view.name, Silent(), **options)


def the_fault(store: ViewStore, view: MaterializedView, **options: bool) -> Fault:
    (fault,) = check(store, view, **options).faults
    return fault


def zero_a_block(path: Path) -> None:
    """Zeros of the same length in the middle, and the old times: what a bad disk does."""
    status = path.stat()
    with path.open("r+b") as stream:
        stream.seek(status.st_size // 2)
        stream.write(bytes(min(16, status.st_size - status.st_size // 2)))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_a_whole_view_has_no_faults_and_a_first_hash_is_noted(store: ViewStore, view: MaterializedView) -> None:
    first = check(store, view)
    assert first.faults == ()
    assert first.recorded == (LARGE,)
    second = check(store, view)
    assert (second.faults, second.recorded, second.cached) == ((), (), 0)
    assert second.bytes_read == first.bytes_read > 5 << 20


@pytest.mark.parametrize(
    "path",
    [WEIGHTS, "model-00002-of-00002.safetensors", "config.json", "a name.txt", "templates élégants/模板.jinja", LARGE],
)
def test_a_zeroed_block_of_the_base_is_found(store: ViewStore, view: MaterializedView, base: Path, path: str) -> None:
    check(store, view)
    zero_a_block(base / path)
    for _ in range(2):  # the fault is not taken for the truth the next time
        fault = the_fault(store, view)
        assert (fault.path, fault.owner) == (path, Owner.base)
        assert fault.reason.startswith("its content has changed: SHA-256 ")


@pytest.mark.parametrize("path", [INDEX, SCALE_FILE, "kvscales-provenance.json"])
def test_a_zeroed_block_of_the_view_is_found_and_mended(
    store: ViewStore, view: MaterializedView, spec: ViewSpec, path: str
) -> None:
    check(store, view)
    zero_a_block(view.path / path)
    fault = the_fault(store, view)
    assert (fault.path, fault.owner) == (path, Owner.view)
    repair(store, view.name, Silent())
    assert check(store, view).faults == ()
    assert (view.path / path).read_bytes() == spec.fresh[path]


def test_a_large_file_that_was_written_to_before_the_first_hash(
    store: ViewStore, view: MaterializedView, base: Path
) -> None:
    with (base / LARGE).open("r+b") as stream:
        stream.write(bytes(16))
    fault = the_fault(store, view)
    assert fault == Fault(LARGE, Owner.base, "was written to after the view was made")


def outside(view: MaterializedView) -> Path:
    path = view.path.parent.parent / "outside.safetensors"
    path.write_bytes((view.path / SCALE_FILE).read_bytes())
    return path


def replace_by_link(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


@pytest.mark.parametrize("absolute", [True, False], ids=["absolute", "with .."])
def test_a_scale_shard_must_be_the_view_s_own_file(store: ViewStore, view: MaterializedView, absolute: bool) -> None:
    shard = outside(view)
    replace_by_link(view.path / SCALE_FILE, str(shard) if absolute else f"../../{shard.name}")
    reason = f"is a symbolic link that leads to {shard}, not a file of the view's own"
    assert the_fault(store, view) == Fault(SCALE_FILE, Owner.view, reason)
    repair(store, view.name, Silent())
    assert check(store, view).faults == ()


def test_a_folder_that_became_a_link(store: ViewStore, view: MaterializedView, base: Path) -> None:
    folder = "templates élégants"
    (view.path / folder / "模板.jinja").unlink()
    (view.path / folder).rmdir()
    (view.path / folder).symlink_to(base / folder)
    assert {(fault.path, fault.owner) for fault in check(store, view).faults} == {
        (folder, Owner.view),
        (f"{folder}/模板.jinja", Owner.view),
    }


DAMAGE: list[tuple[str, Callable[[Path, Path], object], str, Owner, str]] = [
    ("a lost link", lambda view, _: (view / WEIGHTS).unlink(), WEIGHTS, Owner.view, "does not exist"),
    (
        "a link to elsewhere",
        lambda view, _: replace_by_link(view / WEIGHTS, "/etc/hostname"),
        WEIGHTS,
        Owner.view,
        "points to /etc/hostname, not to ../../the base/model-00001-of-00002.safetensors",
    ),
    (
        "a file in a link's place",
        lambda view, _: ((view / WEIGHTS).unlink(), (view / WEIGHTS).write_bytes(b"x")),
        WEIGHTS,
        Owner.view,
        "is not the link that it was",
    ),
    (
        "a stranger",
        lambda view, _: (view / "extra.py").write_text("x"),
        "extra.py",
        Owner.view,
        "is no file of this view",
    ),
    ("a lost shard", lambda view, _: (view / SCALE_FILE).unlink(), SCALE_FILE, Owner.view, "does not exist"),
    (
        "a longer index",
        lambda view, _: (view / INDEX).write_text("{}"),
        INDEX,
        Owner.view,
        "has 2 bytes, not ",
    ),
    (
        "a lost marker",
        lambda view, _: (view / MARKER_FILE).write_bytes(b"\0" * 9),
        MARKER_FILE,
        Owner.view,
        "is missing, ",
    ),
    ("a lost base file", lambda _, base: (base / WEIGHTS).unlink(), WEIGHTS, Owner.base, "does not exist"),
    (
        "a short base file",
        lambda _, base: (base / WEIGHTS).write_bytes(b"x"),
        WEIGHTS,
        Owner.base,
        "has 1 bytes, it had ",
    ),
]


@pytest.mark.parametrize("case", DAMAGE, ids=[case[0] for case in DAMAGE])
def test_damage_is_found_and_what_is_the_view_s_is_mended(
    store: ViewStore, spec: ViewSpec, base: Path, case: tuple[str, Callable[[Path, Path], object], str, Owner, str]
) -> None:
    what, damage, path, owner, reason = case
    view = materialize(spec, store)
    damage(view.path, base)
    before = snapshot(base)
    fault = the_fault(store, view)
    assert (fault.path, fault.owner) == (path, owner)
    assert fault.reason.startswith(reason)
    if what == "a lost marker":
        with pytest.raises(CheckFailedError) as caught:
            repair(store, view.name, Silent())
        assert caught.value.what == f"{view.name} has lost its marker, which says what it was made from"
        assert materialize(spec, store).built  # its recipe makes it again
    elif owner is Owner.view:
        repair(store, view.name, Silent())
    else:
        with pytest.raises(CheckFailedError):
            repair(store, view.name, Silent())
    assert bool(check(store, view).faults) == (owner is Owner.base)
    assert snapshot(base) == before


def test_repair_names_the_base_s_files(store: ViewStore, view: MaterializedView, base: Path) -> None:
    (base / "config.json").write_text('{"dtype": "float32"}')
    with pytest.raises(CheckFailedError) as caught:
        repair(store, view.name, Silent())
    assert caught.value.what == f"{view.name} cannot be made again: the checkpoint or a scale pack has changed since"
    assert [item.candidate for item in caught.value.rejected] == ["config.json"]


def test_a_damaged_view_is_mended_by_materialize_as_well(
    store: ViewStore, view: MaterializedView, spec: ViewSpec
) -> None:
    (view.path / SCALE_FILE).unlink()
    assert materialize(spec, store).built
    assert is_whole(spec, store)


def truncate(path: Path) -> None:
    with path.open("r+b") as stream:
        stream.truncate(9)


def lead_elsewhere(path: Path) -> None:
    """To a file of the same length."""
    other = path.parent.parent / "other"
    other.write_bytes(path.read_bytes())
    replace_by_link(path, "../other")


@pytest.mark.parametrize("damage", [truncate, lead_elsewhere], ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("path", [SCALE_FILE, INDEX, WEIGHTS])
def test_materialize_sees_short_files_and_links_to_elsewhere(
    store: ViewStore, view: MaterializedView, spec: ViewSpec, damage: Callable[[Path], None], path: str
) -> None:
    """It reads no contents, and is run at each start."""
    if damage is truncate and path == WEIGHTS:
        replace_by_link(view.path / path, "../short")
        (view.path.parent / "short").write_bytes(b"short")
    else:
        damage(view.path / path)
    assert not is_whole(spec, store)
    assert materialize(spec, store).built
    assert check(store, view).faults == ()


def test_fast_reads_only_what_changed(store: ViewStore, view: MaterializedView, base: Path) -> None:
    whole = check(store, view)
    assert check(store, view, fast=True).cached == whole.files
    os.utime(base / LARGE)
    again = check(store, view, fast=True)
    assert (again.cached, again.bytes_read, again.faults) == (whole.files - 1, 5 << 20, ())
    (base / LARGE).rename(base / "aside")
    (base / LARGE).write_bytes((base / "aside").read_bytes())  # another inode
    status = (base / "aside").stat()
    os.utime(base / LARGE, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert check(store, view, fast=True).bytes_read == 5 << 20


def test_only_fast_trusts_the_times(store: ViewStore, view: MaterializedView, base: Path) -> None:
    check(store, view)
    zero_a_block(base / LARGE)
    assert check(store, view, fast=True).faults == ()
    assert the_fault(store, view).path == LARGE


class Interrupting(Silent):
    """Breaks the run off once the second file has been begun."""

    def __init__(self, after: int) -> None:
        self.left = after

    def advance(self, amount: int) -> None:
        self.left -= amount
        if self.left < 0:
            raise KeyboardInterrupt


def test_a_run_that_was_broken_off_goes_on(store: ViewStore, view: MaterializedView) -> None:
    with pytest.raises(KeyboardInterrupt):
        verify(store, view.name, Interrupting(5 << 20), threads=1)  # the largest file comes first
    resumed = check(store, view)
    assert resumed.cached >= 1
    assert resumed.bytes_read < 5 << 20
    assert resumed.faults == ()
    assert check(store, view).cached == 0


def test_progress_is_told_of_every_byte(store: ViewStore, view: MaterializedView) -> None:
    class Counting(Silent):
        total = done_bytes = 0

        def start(self, what: str, total: int | None) -> None:
            self.total = total or 0

        def advance(self, amount: int) -> None:
            self.done_bytes += amount

    counting = Counting()
    verdict = verify(store, view.name, counting, threads=4)
    assert counting.done_bytes == counting.total == verdict.bytes_read


def test_a_view_of_a_view_is_verified_through_it(store: ViewStore, view: MaterializedView, base: Path) -> None:
    edit = {"file": "config.json", "op": "add", "path": "/new", "value": 1}
    upper = materialize(spec_for(view.path, edits=(edit,)), store)
    assert check(store, upper).faults == ()
    zero_a_block(base / WEIGHTS)
    assert the_fault(store, upper).path == WEIGHTS


def test_a_swapped_pack_gives_another_view(base: Path, store: ViewStore, view: MaterializedView, pack: Path) -> None:
    write_pack(pack, pack_for(base, scales_for(first=0.75)))
    with pytest.raises(CheckFailedError, match="a scale pack has changed since"):
        repair(store, view.name, Silent())
