"""What a materialized view is: links, own files, name, `current`; and where it works."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from errno import EINVAL, EOPNOTSUPP, EPERM
from multiprocessing import Queue, get_context
from pathlib import Path

import pytest
from view_samples import LABEL, make_base, pack_for, scales_for, snapshot, spec_for, write_pack

from toolkit.checkpoint.local import read_facts
from toolkit.checkpoint.progress import Silent
from toolkit.config.schema.views import LinkChoice
from toolkit.errors import CheckFailedError, ConfigurationError
from toolkit.storage import disk
from toolkit.views import materialize as making
from toolkit.views.digest import sha256
from toolkit.views.garbage import collect, inventory
from toolkit.views.marker import MARKER_FILE, read_marker
from toolkit.views.materialize import is_whole, materialize, served
from toolkit.views.scales.pack import DRAFT_FILE, SCALE_FILE
from toolkit.views.spec import ViewSpec
from toolkit.views.store import ViewStore
from toolkit.views.verify import verify

INDEX = "model.safetensors.index.json"


def first_line(caught: pytest.ExceptionInfo[Exception]) -> str:
    return str(caught.value).splitlines()[0]


def test_a_view_links_the_base_and_adds_its_own(base: Path, spec: ViewSpec, store: ViewStore) -> None:
    before = snapshot(base)
    view = materialize(spec, store)
    assert view.built
    assert view.path == store.root / f"tiny-{spec.digest[:12]}"
    linked = {path for path in view.files if (view.path / path).is_symlink()}
    assert linked == {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "config.json",
                      "a name.txt", "templates élégants/模板.jinja"}  # fmt: skip
    for path in linked:
        assert not str((view.path / path).readlink()).startswith("/")
        assert (view.path / path).read_bytes() == (base / path).read_bytes()
    assert {path for path in view.files if path not in linked} == {INDEX, SCALE_FILE, "kvscales-provenance.json"}
    assert str((store.root / "current").readlink()) == view.name
    assert (store.root / "CACHEDIR.TAG").read_bytes().startswith(b"Signature: 8a477f597d28d172789f06886806bc55")
    assert snapshot(base) == before


def test_the_index_keeps_every_entry_and_counts_the_bytes(base: Path, spec: ViewSpec) -> None:
    old, new = json.loads((base / INDEX).read_text()), json.loads(spec.fresh[INDEX])
    assert new["weight_map"].items() >= old["weight_map"].items()
    assert {name: file for name, file in new["weight_map"].items() if name not in old["weight_map"]} == dict.fromkeys(
        scales_for(), SCALE_FILE
    )
    assert new["metadata"] == {"note": "kept", "total_size": old["metadata"]["total_size"] + 4 * 4}
    assert spec.fresh[INDEX].endswith(b"}\n")
    assert list(new["weight_map"]) == sorted(new["weight_map"])


def test_the_view_is_a_sound_checkpoint(spec: ViewSpec, store: ViewStore) -> None:
    facts = read_facts(materialize(spec, store).path, LABEL)
    assert facts.tensors["model.layers.1.self_attn.v_scale"].file == SCALE_FILE
    assert facts.weight_bytes == json.loads(spec.fresh[INDEX])["metadata"]["total_size"]


def test_the_engine_s_user_can_read_it_under_any_umask(spec: ViewSpec, store: ViewStore) -> None:
    old = os.umask(0o077)
    try:
        view = materialize(spec, store)
    finally:
        os.umask(old)
    for path in (store.root, view.path, view.path / "templates élégants"):
        assert path.stat().st_mode & 0o777 == 0o755
    for file in (*spec.fresh, MARKER_FILE):
        assert (view.path / file).stat().st_mode & 0o777 == 0o644


def test_twice_is_once(spec: ViewSpec, store: ViewStore) -> None:
    first = materialize(spec, store)
    before = snapshot(store.root)
    second = materialize(spec, store)
    assert not second.built
    assert second.path == first.path
    assert snapshot(store.root) == before


@pytest.mark.parametrize("change", ["weights", "config", "overlay", "edits", "options", "index"])
def test_the_digest_covers(base: Path, pack: Path, spec: ViewSpec, tmp_path: Path, change: str) -> None:
    inputs: dict[str, object] = {}
    if change == "weights":
        data = bytearray((base / "model-00001-of-00002.safetensors").read_bytes())
        data[-1] ^= 1
        (base / "model-00001-of-00002.safetensors").write_bytes(data)
    elif change == "config":
        (base / "config.json").write_text("{}")
    elif change == "overlay":
        pack = write_pack(tmp_path / "other", pack_for(base, scales_for(first=0.75)))
    elif change == "edits":
        inputs["edits"] = ({"file": "config.json", "op": "replace", "path": "/dtype", "value": "float16"},)
    elif change == "options":
        inputs["links"] = "copy"
    else:
        (base / INDEX).write_text((base / INDEX).read_text() + "\n")
        pack = write_pack(tmp_path / "other", pack_for(base, scales_for()))
    assert spec_for(base, pack, **inputs).digest != spec.digest


def test_a_large_file_is_known_by_its_time_and_not_by_where_it_lies(tmp_path: Path, base: Path) -> None:
    large = base / "large.bin"
    with large.open("wb") as stream:
        stream.truncate(5 << 20)
    first = spec_for(base).digest
    moved = base.rename(tmp_path / "elsewhere")
    assert spec_for(moved).digest == first
    os.utime(moved / "large.bin", ns=(1, 1))
    assert spec_for(moved).digest != first


def test_a_moved_base_is_linked_anew(tmp_path: Path, base: Path, store: ViewStore) -> None:
    first = materialize(spec_for(base), store)
    moved = base.rename(tmp_path / "elsewhere")
    second = materialize(spec_for(moved), store)
    assert second.built
    assert second.path == first.path
    assert (second.path / "config.json").read_bytes() == (moved / "config.json").read_bytes()


def test_edits_are_fresh_files(base: Path, store: ViewStore) -> None:
    edit = {"file": "config.json", "op": "replace", "path": "/dtype", "value": "float16", "was": "bfloat16"}
    before = (base / "config.json").read_bytes()
    view = materialize(spec_for(base, edits=(edit,)), store)
    assert not (view.path / "config.json").is_symlink()
    assert json.loads((view.path / "config.json").read_text())["dtype"] == "float16"
    assert (base / "config.json").read_bytes() == before


def test_a_single_file_checkpoint_gets_an_index(tmp_path: Path, store: ViewStore) -> None:
    from view_samples import projections, write_shard

    base = tmp_path / "single"
    base.mkdir()
    write_shard(base / "model.safetensors", projections("model", range(2)))
    (base / "config.json").write_text("{}")
    pack = write_pack(tmp_path / "p", pack_for(base, scales_for()))
    view = materialize(spec_for(base, pack), store)
    assert read_facts(view.path, LABEL).weight_bytes == 4 * 8 + 4 * 4


def as_hub_cache(plain: Path, hub: Path) -> Path:
    """The same files as a hub library keeps them: links to blobs that are named by their SHA-256."""
    snapshots, blobs = hub / "snapshots/abc", hub / "blobs"
    blobs.mkdir(parents=True)
    snapshots.mkdir(parents=True)
    for path in sorted(plain.rglob("*")):
        relative = path.relative_to(plain)
        if path.is_dir():
            (snapshots / relative).mkdir()
            continue
        blob = blobs / sha256(path.read_bytes())
        shutil.copy(path, blob)
        (snapshots / relative).symlink_to(os.path.relpath(blob, (snapshots / relative).parent))
    return snapshots


def test_hub_caches_with_linked_blobs(tmp_path: Path, store: ViewStore) -> None:
    plain = make_base(tmp_path / "plain")
    (plain / "large.bin").write_bytes(os.urandom(1 << 20))
    cached = as_hub_cache(plain, tmp_path / "hub/models--a--b")
    pack = write_pack(tmp_path / "p", pack_for(cached, scales_for()))
    view = materialize(spec_for(cached, pack), store)
    assert str((view.path / "config.json").readlink()).endswith("snapshots/abc/config.json")
    assert read_facts(view.path, LABEL).tensors.keys() > read_facts(plain, LABEL).tensors.keys()
    # What the publisher says of a large file is known without reading it, so the first reading finds damage.
    large = cached / "large.bin"
    status = large.stat()
    large.write_bytes(bytes(1 << 20))
    os.utime(large, ns=(status.st_atime_ns, status.st_mtime_ns))
    (fault,) = verify(store, view.name, Silent()).faults
    assert fault.path == "large.bin"


def test_what_the_checkpoint_store_recorded_is_known(base: Path) -> None:
    large = base / "large.bin"
    large.write_bytes(os.urandom(1 << 20))
    recorded = {"large.bin": {"bytes": 1 << 20, "sha256": sha256(large.read_bytes())}}
    (base / ".manifest.json").write_text(json.dumps({"files": recorded}))
    (link,) = (link for link in spec_for(base).links if link.path == "large.bin")
    assert link.sha256 == recorded["large.bin"]["sha256"]
    later = (base / ".manifest.json").stat().st_mtime_ns + 1
    os.utime(large, ns=(later, later))  # written after the record was
    (link,) = (link for link in spec_for(base).links if link.path == "large.bin")
    assert link.sha256 is None


def test_a_read_only_base(base: Path, pack: Path, store: ViewStore) -> None:
    for path in (*base.rglob("*"), base):
        path.chmod(0o555 if path.is_dir() else 0o444)
    assert materialize(spec_for(base, pack), store).built


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no second file system")
def test_a_store_on_another_file_system(spec: ViewSpec) -> None:
    root = Path(f"/dev/shm/volta-views-{os.getpid()}")
    try:
        view = materialize(spec, ViewStore.at(str(root)))
        assert view.path.stat().st_dev != spec.base.stat().st_dev
        assert is_whole(spec, ViewStore.at(str(root)))
        assert view.linked == {"symlink": 5}
    finally:
        disk.remove(root)


def test_a_store_behind_a_symbolic_link(tmp_path: Path, spec: ViewSpec) -> None:
    (tmp_path / "deep/er").mkdir(parents=True)
    (tmp_path / "link").symlink_to("deep/er")
    view = materialize(spec, ViewStore.at(str(tmp_path / "link/store")))
    assert (view.path / "config.json").exists()


def test_a_view_of_a_view_owns_its_scale_shards(base: Path, spec: ViewSpec, store: ViewStore) -> None:
    first = materialize(spec, store)
    edit = {"file": "config.json", "op": "add", "path": "/new", "value": 1}
    second = materialize(spec_for(first.path, edits=(edit,)), store)
    assert (second.path / SCALE_FILE).is_file()
    assert not (second.path / SCALE_FILE).is_symlink()
    assert read_facts(second.path, LABEL).tensors.keys() == read_facts(first.path, LABEL).tensors.keys()
    provenance = json.loads((second.path / "kvscales-provenance.json").read_text())
    assert provenance["base_view"]["tensor_count"] == 4
    with pytest.raises(CheckFailedError, match="the base already has it"):
        spec_for(first.path, write_pack(base.parent / "again", pack_for(first.path, scales_for())))


def test_target_and_draft_packs_in_order(tmp_path: Path, store: ViewStore) -> None:
    base = make_base(tmp_path / "with draft", draft=1)
    target = write_pack(tmp_path / "t", pack_for(base, scales_for(), artifact="target"))
    draft = write_pack(tmp_path / "d", pack_for(base, scales_for(1, "mtp"), artifact="draft"))
    view = materialize(spec_for(base, target, draft, needs_draft=True), store)
    tensors = read_facts(view.path, LABEL).tensors
    assert tensors["model.layers.0.self_attn.k_scale"].file == SCALE_FILE
    assert tensors["mtp.layers.0.self_attn.k_scale"].file == DRAFT_FILE
    assert (view.path / SCALE_FILE).read_bytes() == (target / SCALE_FILE).read_bytes()


def test_the_unit_control_says_so(base: Path) -> None:
    spec = spec_for(base, scales="unit")
    provenance = json.loads(spec.fresh["kvscales-provenance.json"])
    assert provenance["negative_control"]
    assert provenance["target_tensor_count"] == 4


def test_without_strict_the_fallen_are_told(base: Path, tmp_path: Path) -> None:
    pack = write_pack(tmp_path / "half", pack_for(base, scales_for(1)))
    spec = spec_for(base, pack, strict=False)
    assert spec.notes == tuple(
        f"model.layers.1.self_attn.{kind}_scale is in no pack and falls to 1.0, which clips above 448" for kind in "kv"
    )
    with pytest.raises(CheckFailedError, match="Strict KV scales: loaded 2 of 4 required"):
        spec_for(base, pack)


def test_what_does_not_fit_is_refused(base: Path, pack: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckFailedError) as caught:
        spec_for(base, pack, base_index_sha256="0" * 64)
    assert first_line(caught) == "Base checkpoint revision does not match the scale pack"
    with pytest.raises(CheckFailedError) as caught:
        spec_for(base, pack, expected_tensors=("model.layers.7.self_attn.k_scale",))
    assert first_line(caught) == "the view lacks model.layers.7.self_attn.k_scale, which its declaration expects"
    clash = write_pack(tmp_path / "c", pack_for(base, scales_for(), file="model-00001-of-00002.safetensors"))
    with pytest.raises(CheckFailedError) as caught:
        spec_for(base, clash)
    assert first_line(caught) == "the base already has a file model-00001-of-00002.safetensors"


def test_a_store_inside_the_base_is_refused(base: Path, spec: ViewSpec) -> None:
    before = snapshot(base)
    with pytest.raises(ConfigurationError) as caught:
        materialize(spec, ViewStore.at(str(base / "views")))
    assert first_line(caught) == f"the view store {base / 'views'} lies inside the checkpoint's folder"
    assert snapshot(base) == before


def test_a_folder_of_somebody_else_s_is_not_replaced(spec: ViewSpec, store: ViewStore) -> None:
    store.path(spec.name).mkdir(parents=True)
    (store.path(spec.name) / "thesis.txt").write_text("precious")
    with pytest.raises(CheckFailedError) as caught:
        materialize(spec, store)
    assert first_line(caught) == f"{store.path(spec.name)} exists and is no view of ours"
    assert (store.path(spec.name) / "thesis.txt").read_text() == "precious"


def test_a_base_that_changes_meanwhile(base: Path, spec: ViewSpec, store: ViewStore) -> None:
    (base / "config.json").write_text("{} ")
    with pytest.raises(CheckFailedError) as caught:
        materialize(spec, store)
    assert first_line(caught) == "config.json of the checkpoint changed while its view was made"
    assert {path.name for path in store.root.iterdir()} == {"CACHEDIR.TAG", ".locks"}


class Told:
    def __init__(self) -> None:
        self.steps: list[tuple[str, int | None]] = []
        self.bytes = 0

    def start(self, what: str, total: int | None) -> None:
        self.steps.append((what, total))

    def advance(self, amount: int) -> None:
        self.bytes += amount

    def done(self) -> None:
        pass


def without_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system like vfat."""

    def refuse(*_: object) -> None:
        raise OSError(EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "symlink", refuse)


def test_a_copy_is_the_last_resort_and_is_announced(
    spec: ViewSpec, store: ViewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_links(monkeypatch)
    told, total = Told(), sum(link.size for link in spec.links)
    view = materialize(spec, store, told)
    assert view.linked == {"copy": 5}
    assert told.steps == [(f"copying 5 files, {total:,} bytes, of {spec.base}", total)]
    assert told.bytes == total
    assert view.bytes_written > total


def test_a_demanded_link_that_cannot_be(spec: ViewSpec, store: ViewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    without_links(monkeypatch)
    with pytest.raises(CheckFailedError) as caught:
        materialize(replace(spec, links_by=LinkChoice.symlink), store)
    assert first_line(caught) == f"the file system of {store.root} cannot make a symlink of the checkpoint's files"
    assert store.names() == ()


def test_reflinks_come_first_where_the_file_system_has_them(
    spec: ViewSpec, store: ViewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def clone(source: Path, path: Path) -> None:  # stands in for FICLONE, which this file system may lack
        if source.name == "config.json":
            raise OSError(EOPNOTSUPP, "Operation not supported")
        disk.write_file(path, source.read_bytes())

    monkeypatch.setattr(disk, "clone_file", clone)
    assert materialize(spec, store).linked == {"reflink": 1, "symlink": 4}
    assert is_whole(spec, store)


def test_eight_processes_build_one_view_once(spec: ViewSpec, store: ViewStore) -> None:
    context = get_context("fork")
    ready, answers = context.Barrier(8), context.Queue()

    def build() -> None:
        ready.wait()
        view = materialize(spec, store)
        answers.put((view.built, view.path.stat().st_ino))

    processes = [context.Process(target=build) for _ in range(8)]
    for process in processes:
        process.start()
    found = [answers.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    assert sorted(built for built, _ in found) == [False] * 7 + [True]
    assert len({inode for _, inode in found}) == 1
    assert {path.name for path in store.root.iterdir()} == {spec.name, "current", "CACHEDIR.TAG", ".locks"}


def test_materialize_and_gc_at_once(spec: ViewSpec, store: ViewStore) -> None:
    context = get_context("fork")
    ended = context.Event()

    def serve(failures: Queue[str]) -> None:
        for _ in range(15):
            with served(spec, store) as view:
                if not is_whole(spec, store) or view.path != store.path(spec.name):
                    failures.put("a served view was taken away")
            materialize(spec, store)

    def sweep() -> None:
        while not ended.is_set():
            collect(store, inventory(store), lambda _: None)

    failures = context.Queue()
    servers = [context.Process(target=serve, args=(failures,)) for _ in range(3)]
    sweeper = context.Process(target=sweep)
    for process in (*servers, sweeper):
        process.start()
    for process in servers:
        process.join()
    ended.set()
    sweeper.join()
    assert [process.exitcode for process in (*servers, sweeper)] == [0, 0, 0, 0]
    assert failures.empty()
    assert store.current_name() in {None, *store.names()}


def test_gc_between_finding_a_view_and_making_it_current(
    spec: ViewSpec, store: ViewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = materialize(spec, store)
    original = making.make_current

    def after_gc(store: ViewStore, name: str) -> None:
        collect(store, inventory(store), lambda _: None)
        original(store, name)

    monkeypatch.setattr(making, "make_current", after_gc)
    materialize(spec, store)
    assert view.path.is_dir()
    assert store.current_name() == view.name


def test_a_name_of_bytes_that_are_no_text(base: Path, store: ViewStore) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    (base / name).write_text("latin")
    view = materialize(spec_for(base), store)
    assert (view.path / name).read_text() == "latin"
    assert verify(store, view.name, Silent()).faults == ()


def test_the_marker_says_what_it_was_made_from(spec: ViewSpec, store: ViewStore, pack: Path) -> None:
    marker = read_marker(materialize(spec, store).path)
    assert marker is not None
    assert marker.made_from["packs"] == [{"folder": str(pack), "scale_sha256": None}]
    assert marker.digest == spec.digest


def test_a_file_system_that_cannot_exchange_two_names(
    spec: ViewSpec, store: ViewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: bytes) -> None:
        raise OSError(EINVAL, "Invalid argument")

    monkeypatch.setattr(disk, "rename_exchange", refuse)
    view = materialize(spec, store)
    (view.path / SCALE_FILE).unlink()
    assert materialize(spec, store).built
    assert is_whole(spec, store)
    # Killed between the renames, the old folder is left beside; it goes with the next building, or with gc.
    left = store.root / f".staging-{spec.name}.old"
    view.path.rename(left)
    assert materialize(spec, store).built
    assert not left.exists()
    left.mkdir()
    collect(store, inventory(store), lambda _: None)
    assert not left.exists()


def test_the_verbs_start_without_the_heavy_libraries() -> None:
    code = (
        "import sys, toolkit.materialize, toolkit.verify, toolkit.gc; "
        "print({'torch', 'numpy', 'hydra', 'rich'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
