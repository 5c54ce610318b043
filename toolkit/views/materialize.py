"""Making a view: built aside, brought to the disk, published by one rename; old or new at every moment."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from toolkit.checkpoint.progress import Progress, Silent, step
from toolkit.errors import CheckFailedError, ConfigurationError
from toolkit.storage import disk
from toolkit.storage.lock import locked
from toolkit.views.digest import sha256
from toolkit.views.lease import lease
from toolkit.views.links import UNSUPPORTED, link_files, target_of
from toolkit.views.marker import MARKER_FILE, FreshFile, LinkedFile, Marker, read_marker
from toolkit.views.spec import ViewSpec
from toolkit.views.store import ViewStore, has_marker, store_fault


@dataclass(frozen=True)
class MaterializedView:
    """A view that is on the disk."""

    path: Path
    name: str
    digest: str
    built: bool
    """Whether this call made it; otherwise it was there."""
    files: tuple[str, ...]
    linked: Mapping[str, int] = field(default_factory=dict)
    """Number of files by the way that they were taken: symlink, reflink, copy."""
    bytes_written: int = 0
    notes: tuple[str, ...] = ()


def materialize(spec: ViewSpec, store: ViewStore, progress: Progress | None = None) -> MaterializedView:
    """The view in the store, made if it is not there whole; `current` points to it then.

    Of several processes one builds and the others wait for it. Raises CheckFailedError where the disk fails or the
    base changes meanwhile (nothing half-made stays), ConfigurationError where the store lies inside the base.
    """
    if store.root.is_relative_to(spec.base):
        raise ConfigurationError(
            f"the view store {store.root} lies inside the checkpoint's folder",
            why="nothing of a checkpoint is ever written",
            fix="set views.root to a folder outside of it",
        )
    try:
        store.prepare()
        with lease(store, spec.name):  # or garbage collection could take it before `current` points to it
            view = _found(spec, store) or _build_once(spec, store, progress or Silent())
            make_current(store, spec.name)
    except OSError as error:
        raise store_fault(store, error) from error
    return view


@contextmanager
def served(spec: ViewSpec, store: ViewStore, progress: Progress | None = None) -> Iterator[MaterializedView]:
    """The view, materialized, and kept from being collected as garbage until the context ends."""
    try:
        store.prepare()
    except OSError as error:
        raise store_fault(store, error) from error
    with lease(store, spec.name):
        yield materialize(spec, store, progress)


def rebuild(spec: ViewSpec, store: ViewStore, progress: Progress) -> MaterializedView:
    """The view made anew, whatever is there now; the old one is replaced in one step."""
    with locked(store.lock_file(spec.name), _waiting(spec, progress)):
        return _build(spec, store, progress)


def make_current(store: ViewStore, name: str) -> None:
    """Let `current` point to a view; a file system without symbolic links goes without it."""
    if store.current_name() == name:
        return
    try:
        with store.exclusive():
            disk.point(store.current, name)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise


def is_whole(spec: ViewSpec, store: ViewStore) -> bool:
    """Whether the view is there with every file in its place and at its length; no content is read."""
    folder = store.path(spec.name)
    marker = read_marker(folder)
    if marker is None or marker.digest != spec.digest or marker.base != str(spec.base):
        return False
    if set(marker.files) != set(spec.files):
        return False
    try:
        linked = all(_link_holds(spec, folder, link) for link in marker.links)
        return linked and all(_is_file(folder / path, len(data)) for path, data in spec.fresh.items())
    except OSError:
        return False


def _link_holds(spec: ViewSpec, folder: Path, link: LinkedFile) -> bool:
    path = folder / link.path
    if link.method != "symlink":
        return _is_file(path, link.size)
    return os.readlink(path) == target_of(spec.base, link.path, folder) and path.stat().st_size == link.size  # noqa: PTH115


def _is_file(path: Path, size: int) -> bool:
    return path.is_file() and not path.is_symlink() and path.stat().st_size == size


def _found(spec: ViewSpec, store: ViewStore) -> MaterializedView | None:
    if not is_whole(spec, store):
        return None
    path = store.path(spec.name)
    marker = read_marker(path)
    methods = Counter(link.method for link in marker.links) if marker else {}
    return MaterializedView(path, spec.name, spec.digest, False, spec.files, methods, 0, spec.notes)


def _waiting(spec: ViewSpec, progress: Progress) -> AbstractContextManager[Progress]:
    return step(progress, f"waiting for another process to make {spec.name}", None)


def _build_once(spec: ViewSpec, store: ViewStore, progress: Progress) -> MaterializedView:
    with locked(store.lock_file(spec.name), _waiting(spec, progress)):
        return _found(spec, store) or _build(spec, store, progress)  # another process may have made it meanwhile


def _build(spec: ViewSpec, store: ViewStore, progress: Progress) -> MaterializedView:
    """Build and publish; the view's lock is held."""
    final, staging = store.path(spec.name), store.staging(spec.name)
    if os.path.lexists(final) and not has_marker(final):
        raise CheckFailedError(
            f"{final} exists and is no view of ours",
            why="it has no marker, so it is not replaced",
            fix="move it away, or set views.root to another folder",
        )
    _sweep(store, spec.name)
    try:
        marker, written = _fill(spec, staging, progress)
        disk.sync_tree(staging)
        disk.publish(staging, final)
    finally:
        _sweep(store, spec.name)  # what is there now failed, or was replaced
    methods = Counter(link.method for link in marker.links)
    return MaterializedView(final, spec.name, spec.digest, True, spec.files, methods, written, spec.notes)


def _sweep(store: ViewStore, name: str) -> None:
    """Remove what a builder of this view left; the view's lock is held."""
    staging = store.staging(name)
    for path in (staging, staging.with_name(f"{staging.name}.old"), store.removing(name)):
        disk.remove(path)


def _fill(spec: ViewSpec, folder: Path, progress: Progress) -> tuple[Marker, int]:
    """Make the view's content in a new folder; returns its marker and the bytes that were written."""
    disk.make_folder(folder)
    for path in _folders(spec.files):
        disk.make_folder(folder / path)
    links = link_files(spec.base, spec.links, spec.links_by, folder, progress)
    for link in links:
        if (folder / link.path).stat().st_size != link.size:
            raise CheckFailedError(
                f"{link.path} of the checkpoint changed while its view was made",
                where=str(spec.base),
                fix="run it again",
            )
    for path, data in spec.fresh.items():
        disk.write_file(folder / path, data)
    fresh = tuple(FreshFile(path, len(data), sha256(data)) for path, data in spec.fresh.items())
    marker = Marker(spec.name, spec.digest, str(spec.base), links, fresh, spec.made_from)
    text = marker.to_bytes()
    disk.write_file(folder / MARKER_FILE, text)
    copied = sum(link.size for link in links if link.method == "copy")
    return marker, copied + len(text) + sum(file.size for file in fresh)


def _folders(files: tuple[str, ...]) -> list[str]:
    """The subfolders of the files, outer ones first."""
    parents = {parent.as_posix() for file in files for parent in Path(file).parents}
    return sorted(parents - {"."})
