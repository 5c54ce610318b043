"""A process killed, and a disk that fails, at every single file operation of materialize, repair and gc."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from errno import EACCES, EIO, ENOSPC
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from view_faults import CHANGING, EVERY, failing, killed_at, unsynced, watched
from view_samples import make_small_base, pack_for, scales_for, snapshot, spec_for, write_pack

from toolkit.errors import ToolkitError
from toolkit.storage import disk
from toolkit.views.garbage import collect, inventory
from toolkit.views.materialize import is_whole, materialize, served
from toolkit.views.scales.pack import SCALE_FILE
from toolkit.views.spec import ViewSpec
from toolkit.views.store import ViewStore

OWN = {"CACHEDIR.TAG", ".locks", ".hashes"}
MOST = 2000  # operations; a task that needs more would make this test endless


@dataclass(frozen=True)
class Scene:
    """A store with one view, `old`, and a second one that a task is about to make."""

    base: Path
    old: ViewSpec
    new: ViewSpec
    store: ViewStore

    def clear(self) -> None:
        disk.remove(self.store.root)

    def start(self) -> None:
        self.clear()
        materialize(self.old, self.store)

    def damage_new(self) -> None:
        self.start()
        materialize(self.new, self.store)
        (self.store.path(self.new.name) / SCALE_FILE).unlink()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    base = make_small_base(tmp_path / "base")
    packs = [write_pack(tmp_path / f"p{first}", pack_for(base, scales_for(1, first=first))) for first in (0.5, 0.75)]
    old, new = (spec_for(base, pack) for pack in packs)
    # Thousands of fsyncs are waited for on a disk; the order of operations is the same in memory.
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as folder:
        yield Scene(base, old, new, ViewStore.at(f"{folder}/store"))


def gc(store: ViewStore) -> None:
    collect(store, inventory(store), lambda _: None)


def each_operation(
    prepare: Callable[[], None], task: Callable[[], object], check: Callable[[int], None]
) -> dict[str, int]:
    """Run the task with each operation killed, and failed in three ways; says how many operations there were."""
    counts = {}
    for at in range(1, MOST):
        prepare()
        killed = killed_at(at, task)
        check(at)
        if not killed:
            counts["kill"] = at - 1
            break
    for number, counted in ((ENOSPC, CHANGING), (EIO, EVERY), (EACCES, EVERY)):
        for at in range(1, MOST):
            prepare()
            with watched(at, failing(number), counted) as seen:
                try:
                    task()
                except ToolkitError as error:
                    assert error.exit_code == 5, error  # noqa: PT017 - most operations must fail, some need not
            check(at)
            if seen.count < at:
                counts[str(number)] = at - 1
                break
    return counts


def test_materialize_leaves_the_old_or_the_new_state(scene: Scene) -> None:
    before = snapshot(scene.base)

    def check(at: int) -> None:
        names = set(scene.store.names())
        assert {scene.old.name} <= names <= {scene.old.name, scene.new.name}, at
        assert is_whole(scene.old, scene.store), at
        assert scene.new.name not in names or is_whole(scene.new, scene.store), at
        assert scene.store.current_name() in names, at
        materialize(scene.new, scene.store)
        assert is_whole(scene.new, scene.store), at
        assert scene.store.current_name() == scene.new.name, at
        gc(scene.store)
        assert {path.name for path in scene.store.root.iterdir()} <= OWN, at

    counts = each_operation(scene.start, lambda: materialize(scene.new, scene.store), check)
    assert counts["kill"] > 50
    assert snapshot(scene.base) == before


def test_the_first_materialize_of_a_store_leaves_nothing_or_all(scene: Scene) -> None:
    def check(at: int) -> None:
        names = scene.store.names()
        assert names in ((), (scene.new.name,)), at
        assert not names or is_whole(scene.new, scene.store), at
        gc(scene.store)
        left = {path.name for path in scene.store.root.iterdir()} if scene.store.root.exists() else set()
        assert left <= OWN, at
        assert materialize(scene.new, scene.store).built

    each_operation(scene.clear, lambda: materialize(scene.new, scene.store), check)


def test_mending_a_view_never_takes_it_away(scene: Scene) -> None:
    def check(at: int) -> None:
        assert set(scene.store.names()) == {scene.old.name, scene.new.name}, at
        assert (scene.store.path(scene.new.name) / "config.json").exists(), at
        materialize(scene.new, scene.store)
        assert is_whole(scene.new, scene.store), at
        gc(scene.store)
        assert {path.name for path in scene.store.root.iterdir()} <= OWN, at

    each_operation(scene.damage_new, lambda: materialize(scene.new, scene.store), check)


def test_gc_leaves_each_view_whole_or_gone(scene: Scene) -> None:
    before = snapshot(scene.base)

    def prepare() -> None:
        scene.start()
        scene.store.staging(scene.new.name).mkdir()
        (scene.store.staging(scene.new.name) / "half").write_text("left by a dead builder")

    def check(at: int) -> None:
        assert scene.old.name not in scene.store.names() or is_whole(scene.old, scene.store), at
        assert scene.store.current_name() in {None, *scene.store.names()}, at
        gc(scene.store)
        assert {path.name for path in scene.store.root.iterdir()} <= OWN, at
        assert materialize(scene.new, scene.store).built

    counts = each_operation(prepare, lambda: gc(scene.store), check)
    assert counts["kill"] > 50
    assert snapshot(scene.base) == before


@pytest.mark.parametrize("prepare", ["clear", "start", "damage_new"])
def test_everything_is_on_the_disk_before_the_rename_that_publishes_it(scene: Scene, prepare: str) -> None:
    getattr(scene, prepare)()
    with watched() as seen:
        materialize(scene.new, scene.store)
    assert unsynced(seen.happened, scene.store.root) == []
    synced = sum(name == "fsync" for name, _, _ in seen.happened)
    assert synced >= len(scene.new.fresh) + 1 + 2  # its own files, the marker, and two folders
    assert any(name in ("rename", "exchange") for name, _, _ in seen.happened)


def test_the_order_check_finds_a_missing_sync(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.clear()
    monkeypatch.setattr(disk, "sync_tree", lambda root: None)
    with watched() as seen:
        materialize(scene.new, scene.store)
    assert unsynced(seen.happened, scene.store.root)[0] == str(scene.store.staging(scene.new.name))


def test_gc_brings_the_rename_to_the_disk_before_it_removes_a_file(scene: Scene) -> None:
    """Or a power cut could leave a view under its own name without some of its files."""
    scene.start()
    with watched() as seen:
        gc(scene.store)
    order = [(name, os.fsdecode(args[0]) if isinstance(args[0], str | bytes | Path) else args[0], result)
             for name, args, result in seen.happened if args]  # fmt: skip
    roots = {result for name, path, result in order if name == "open" and path == str(scene.store.root)}
    view = str(scene.store.path(scene.old.name))
    renamed = next(at for at, (name, path, _) in enumerate(order) if (name, path) == ("rename", view))
    synced = next(at for at in range(renamed, len(order)) if order[at][0] == "fsync" and order[at][1] in roots)
    removed = next(at for at in range(renamed, len(order)) if order[at][0] in ("unlink", "rmdir"))
    assert renamed < synced < removed


def test_a_served_view_survives_gc_even_if_its_server_is_killed_later(scene: Scene) -> None:
    with served(scene.new, scene.store) as view:
        gc(scene.store)
        assert view.path.is_dir()
        found = inventory(scene.store)
        assert [(kept.name, kept.reason) for kept in found.kept] == [(view.name, "in use")]
    gc(scene.store)
    assert not view.path.exists()
