"""gc removes what is ours and unused, says it first, and touches nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from view_samples import snapshot, spec_for

from toolkit.checkpoint.progress import Silent
from toolkit.storage.lock import locked_if_free
from toolkit.views.garbage import Garbage, Inventory, Kept, collect, inventory
from toolkit.views.lease import lease
from toolkit.views.marker import MARKER_FILE
from toolkit.views.materialize import materialize, served
from toolkit.views.spec import ViewSpec
from toolkit.views.store import ViewStore
from toolkit.views.verify import verify

EDIT = {"file": "config.json", "op": "add", "path": "/new", "value": 1}


def gc(store: ViewStore, **options: bool) -> Inventory:
    found = inventory(store, **options)
    collect(store, found, lambda _: None)
    return found


def test_an_unused_view_goes_with_all_its_records(spec: ViewSpec, store: ViewStore, base: Path) -> None:
    before = snapshot(base)
    view = materialize(spec, store)
    verify(store, view.name, Silent())
    found = gc(store)
    assert [garbage.name for garbage in found.garbage] == [view.name]
    assert found.garbage[0].num_bytes > view.bytes_written
    assert {path.name for path in store.root.iterdir()} == {"CACHEDIR.TAG", ".locks", ".hashes"}
    assert list(store.hashes.iterdir()) == []
    assert snapshot(base) == before


def test_looking_changes_nothing(spec: ViewSpec, store: ViewStore) -> None:
    materialize(spec, store)
    before = snapshot(store.root)
    assert inventory(store).garbage
    assert snapshot(store.root) == before


def test_an_empty_or_absent_store(store: ViewStore) -> None:
    assert gc(store) == Inventory((), ())
    assert not store.root.exists()


def test_what_is_not_ours_stays(store: ViewStore, spec: ViewSpec) -> None:
    materialize(spec, store)
    (store.root / "thesis-0123456789ab").mkdir()
    (store.root / "thesis-0123456789ab" / "text").write_text("precious")
    (store.root / "notes.txt").write_text("precious")
    (store.root / ".staging-of-mine").mkdir()
    found = gc(store)
    assert found.kept == (Kept("thesis-0123456789ab", "no view of ours: it has no marker"),)
    assert (store.root / "thesis-0123456789ab" / "text").read_text() == "precious"
    assert (store.root / "notes.txt").exists()
    assert (store.root / ".staging-of-mine").exists()


def test_a_view_whose_marker_cannot_be_read_stays(store: ViewStore, spec: ViewSpec) -> None:
    view = materialize(spec, store)
    (view.path / MARKER_FILE).write_text("")
    reason = "its marker cannot be read; materialize it again, or remove it by hand"
    assert gc(store).kept == (Kept(view.name, reason),)
    assert view.path.is_dir()


def test_current_can_be_kept(store: ViewStore, base: Path, spec: ViewSpec) -> None:
    old, new = materialize(spec_for(base), store), materialize(spec, store)
    found = gc(store, keep_current=True)
    assert [garbage.name for garbage in found.garbage] == [old.name]
    assert found.kept == (Kept(new.name, "`current` points to it"),)
    assert (store.root / "current" / "config.json").exists()


def test_the_base_of_a_view_that_stays_stays(store: ViewStore, spec: ViewSpec) -> None:
    lower = materialize(spec, store)
    with served(spec_for(lower.path, edits=(EDIT,)), store) as upper:
        assert gc(store).kept == (Kept(upper.name, "in use"), Kept(lower.name, f"the base of {upper.name}"))
        assert (upper.path / "a name.txt").read_text() == "with a space"
    assert {garbage.name for garbage in gc(store).garbage} == {upper.name, lower.name}


def test_a_view_that_comes_into_use_between_looking_and_removing(store: ViewStore, spec: ViewSpec) -> None:
    view = materialize(spec, store)
    found = inventory(store)
    freed: list[Garbage] = []
    with lease(store, view.name):
        assert collect(store, found, freed.append) == (Kept(view.name, "came into use"),)
    assert freed == []
    assert view.path.is_dir()


def test_a_lease_ends_with_its_process(store: ViewStore, spec: ViewSpec) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with served(spec, store):
            os.write(writing, b"1")
            os.read(reading, 0)
            os.kill(os.getpid(), 19)  # stays, with its lease, until it is killed
        os._exit(1)
    os.read(reading, 1)
    assert [kept.reason for kept in gc(store).kept] == ["in use"]
    os.kill(child, 9)
    os.waitpid(child, 0)
    assert [garbage.name for garbage in gc(store).garbage] == [spec.name]


@pytest.mark.parametrize("kind", ["staging", "removing"])
def test_leftovers_go_unless_their_builder_lives(store: ViewStore, spec: ViewSpec, kind: str) -> None:
    store.prepare()
    left = getattr(store, kind)(spec.name)
    left.mkdir()
    (left / "half").write_text("x")
    with locked_if_free(store.lock_file(spec.name)):
        assert gc(store).kept == (Kept(left.name, "being built or removed"),)
        assert left.exists()
    assert gc(store).garbage == (Garbage(left.name, "left by a process that died", 1),)
    assert not left.exists()


def test_links_are_removed_and_never_followed(store: ViewStore, spec: ViewSpec, base: Path) -> None:
    store.prepare()
    left = store.staging(spec.name)
    left.mkdir()
    (left / "loop").symlink_to(base)
    before = snapshot(base)
    gc(store)
    assert not left.exists()
    assert snapshot(base) == before
