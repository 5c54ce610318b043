"""Files of store and base that somebody wrote by hand: refused or put right, never a traceback or a write there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from view_samples import snapshot, spec_for

from toolkit.checkpoint.progress import Silent
from toolkit.errors import CheckFailedError, ToolkitError
from toolkit.views.garbage import collect, inventory
from toolkit.views.marker import MARKER_FILE, read_marker
from toolkit.views.materialize import materialize
from toolkit.views.scales.pack import SCALE_FILE
from toolkit.views.spec import ViewSpec
from toolkit.views.store import ViewStore
from toolkit.views.verify import repair, verify

Change = Callable[[Any], None]


def at(*path: str | int, value: Any) -> Change:
    """Sets one place of a document."""

    def change(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value

    return change


def rewrite(marker: Path, change: Change) -> None:
    document = json.loads(marker.read_text())
    change(document)
    marker.write_text(json.dumps(document))


WRONG_MARKERS = {
    "a path that is a number": at("links", 0, "path", value=5),
    "a path that leads out": at("links", 0, "path", value="../../../etc/hostname"),
    "an absolute path": at("fresh", 0, "path", value="/etc/hostname"),
    "a path with a NUL": at("fresh", 0, "path", value="a\0b"),
    "a size in words": at("links", 0, "size", value="x"),
    "a size of true": at("fresh", 0, "size", value=True),
    "a base that is a number": at("base", value=7),
    "a digest of null": at("digest", value=None),
    "a key too many": at("more", value=1),
    "links that are none": at("links", value=[[1]]),
}


@pytest.mark.parametrize("change", WRONG_MARKERS.values(), ids=WRONG_MARKERS)
def test_a_marker_that_cannot_be_ours_is_as_good_as_lost(spec: ViewSpec, store: ViewStore, change: Change) -> None:
    view = materialize(spec, store)
    rewrite(view.path / MARKER_FILE, change)
    assert read_marker(view.path) is None
    (fault,) = verify(store, view.name, Silent()).faults
    assert (fault.path, fault.reason) == (MARKER_FILE, "is missing, unreadable or another view's")
    collect(store, inventory(store), lambda _: None)
    assert view.path.is_dir(), "gc takes only what it can tell to be ours"
    with pytest.raises(CheckFailedError, match="has lost its marker"):
        repair(store, view.name, Silent())
    assert materialize(spec, store).built


WRONG_INPUTS = {
    "a list": at("made_from", value=[1]),
    "packs": at("made_from", "packs", value="x"),
    "a pack's folder": at("made_from", "packs", 0, "folder", value=5),
    "label": at("made_from", "label", value=5),
    "links": at("made_from", "links", value="hard"),
    "scales": at("made_from", "scales", value="none"),
    "edits": at("made_from", "edits", value=5),
    "strict": at("made_from", "strict", value="yes"),
}


@pytest.mark.parametrize("change", WRONG_INPUTS.values(), ids=WRONG_INPUTS)
def test_what_a_view_was_made_from_must_be_told_rightly(spec: ViewSpec, store: ViewStore, change: Change) -> None:
    view = materialize(spec, store)
    rewrite(view.path / MARKER_FILE, change)
    before = snapshot(store.root)
    with pytest.raises(CheckFailedError, match="has lost its marker"):
        repair(store, view.name, Silent())
    assert snapshot(store.root) == before


RECORD = {"path": "config.json", "size": 1, "mtime_ns": 1, "inode": 1, "sha256": "x", "at": 1e12}


@pytest.mark.parametrize("wrong", [{"at": "noon"}, {"path": [1]}, {"size": None}, {"sha256": 7}, {"more": 1}], ids=str)
@pytest.mark.parametrize("partial", [True, False], ids=["broken off", "whole"])
def test_a_record_of_hashes_that_cannot_be_ours_is_not_used(
    spec: ViewSpec, store: ViewStore, wrong: dict[str, Any], partial: bool
) -> None:
    view = materialize(spec, store)
    verify(store, view.name, Silent())
    record = {**RECORD, **wrong}
    text = json.dumps(record) if partial else json.dumps({"config.json": record})
    (store.hashes / (f"{view.name}.partial.jsonl" if partial else f"{view.name}.json")).write_text(text + "\n")
    verdict = verify(store, view.name, Silent(), fast=True)
    assert verdict.faults == ()
    assert verdict.cached == (verdict.files if partial else 0)


@pytest.mark.parametrize("folder", [".locks", ".hashes"])
def test_nothing_is_written_through_a_link_to_the_base(
    spec: ViewSpec, store: ViewStore, base: Path, folder: str
) -> None:
    store.root.mkdir()
    (store.root / folder).symlink_to(base)
    before = snapshot(base)
    with pytest.raises(ToolkitError, match="a folder of the store is a symbolic link"):
        materialize(spec, store)
    assert snapshot(base) == before


@pytest.mark.parametrize("kind", ["lock", "lease"])
def test_a_lock_is_never_taken_through_a_link(spec: ViewSpec, store: ViewStore, base: Path, kind: str) -> None:
    store.prepare()
    store.lock_file(spec.name, kind).symlink_to(base / "new.txt")
    with pytest.raises(ToolkitError, match="Too many levels of symbolic links"):
        materialize(spec, store)
    assert not (base / "new.txt").exists()


@pytest.mark.parametrize("name", [".staging-{}", ".removing-{}", ".staging-{}.old", "CACHEDIR.TAG"])
def test_links_in_the_store_s_places_are_replaced_and_not_followed(
    spec: ViewSpec, store: ViewStore, base: Path, name: str
) -> None:
    store.root.mkdir()
    (store.root / name.format(spec.name)).symlink_to(base if name.startswith(".") else base / "config.json")
    before = snapshot(base)
    assert materialize(spec, store).built
    collect(store, inventory(store), lambda _: None)
    assert snapshot(base) == before


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("kvscales-provenance.json", "no json", "kvscales-provenance.json of the checkpoint: wrong JSON at line 1"),
        ("kvscales-provenance.json", "[1]", "kvscales-provenance.json of the checkpoint: wrong JSON: an object is"),
        (
            "kvscales-provenance.json",
            None,
            "the base has a folder kvscales-provenance.json, which is the name of a file",
        ),
        (SCALE_FILE, None, f"the base has a folder {SCALE_FILE}, which is the name of a file of the view"),
    ],
)
def test_a_base_that_has_the_view_s_names(base: Path, pack: Path, name: str, text: str | None, says: str) -> None:
    if text is None:
        (base / name).mkdir()
        (base / name / "x").write_text("x")
    else:
        (base / name).write_text(text)
    with pytest.raises(CheckFailedError) as caught:
        spec_for(base, pack)
    assert caught.value.what.startswith(says)


def test_pipes_loops_and_links_to_nowhere_are_no_part_of_a_view(base: Path, pack: Path, store: ViewStore) -> None:
    os.mkfifo(base / "pipe.json")
    (base / "loop").symlink_to(".")
    (base / "self").symlink_to("self")
    (base / "a\nb.txt").write_text("a name of two lines")
    view = materialize(spec_for(base, pack), store)
    assert {"pipe.json", "loop", "self"}.isdisjoint(view.files)
    assert "a\nb.txt" in view.files
    assert verify(store, view.name, Silent()).faults == ()
