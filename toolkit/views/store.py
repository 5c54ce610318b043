"""The folder of all views: `ROOT/NAME-DIGEST12/`, and beside them what keeps them whole.

ROOT/current             a link to the view that was materialized last
ROOT/CACHEDIR.TAG        tells backup programs that all of it can be made again
ROOT/.staging-NAME/      a view being built; beside the others, so that its relative links hold there already
ROOT/.removing-NAME/     a view being removed
ROOT/.locks/             NAME.lock (who builds), NAME.lease (who serves), NAME.verify, store.lock
ROOT/.hashes/            what `verify` has read
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from errno import EINVAL, ENOENT, ENOTDIR
from pathlib import Path

from toolkit.checkpoint.progress import Silent, step
from toolkit.config.paths import user_path
from toolkit.errors import CheckFailedError, ToolkitError
from toolkit.storage import disk
from toolkit.storage.cache_tag import tag_cache
from toolkit.storage.lock import locked
from toolkit.views.marker import MARKER_FILE, read_marker

VIEW_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*-[0-9a-f]{12}")
LEFTOVER = re.compile(r"\.(?:staging|removing)-(?P<name>[A-Za-z0-9._-]+-[0-9a-f]{12})(?:\.old)?")


@dataclass(frozen=True)
class ViewStore:
    """The views below `root`, a path without symbolic links."""

    root: Path

    @classmethod
    def at(cls, root: str = "") -> ViewStore:
        """The store in a folder, or in the user's data folder; nothing is made yet."""
        if not root:
            from platformdirs import user_data_path

            root = str(user_data_path("volta-toolkit") / "views")
        return cls(Path(os.path.realpath(user_path(root, "views.root"))))

    def path(self, name: str) -> Path:
        """Where a view is or would be."""
        return self.root / name

    def lock_file(self, name: str, kind: str = "lock") -> Path:
        """The file of a view's lock: `lock` (building), `lease` (serving) or `verify`."""
        return self.root / ".locks" / f"{name}.{kind}"

    def staging(self, name: str) -> Path:
        """Where a view is built."""
        return self.root / f".staging-{name}"

    def removing(self, name: str) -> Path:
        """Where a view goes in one step, to be removed in many."""
        return self.root / f".removing-{name}"

    @property
    def hashes(self) -> Path:
        """The folder of what `verify` has read."""
        return self.root / ".hashes"

    @property
    def current(self) -> Path:
        """The link to the view that was materialized last."""
        return self.root / "current"

    def current_name(self) -> str | None:
        """The name of the view that `current` points to; None where there is no such link."""
        try:
            return os.readlink(self.current)  # noqa: PTH115 - the text itself, not a path below the working folder
        except OSError as error:
            if error.errno in (ENOENT, ENOTDIR, EINVAL):
                return None
            raise

    def names(self) -> tuple[str, ...]:
        """The views in the store, by name: folders that are named as one and hold a marker, readable or not.

        Raises CheckFailedError where the folder cannot be listed.
        """
        try:
            found = sorted(entry.name for entry in os.scandir(self.root) if entry.is_dir(follow_symlinks=False))
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise store_fault(self, error) from error
        return tuple(name for name in found if VIEW_NAME.fullmatch(name) and has_marker(self.path(name)))

    def prepare(self) -> None:
        """Make the store's own folders and files, where they are not there."""
        if not self.root.is_dir():
            self.root.parent.mkdir(parents=True, exist_ok=True)
            _folder(self.root)
        _folder(self.root / ".locks")
        if self.hashes.is_symlink():
            raise NotADirectoryError(ENOTDIR, "a folder of the store is a symbolic link", str(self.hashes))
        tag_cache(self.root, self.lock_file("store"))

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock of what belongs to no single view: `current` and the tag."""
        with locked(self.lock_file("store"), step(Silent(), "waiting for the view store", None)):
            yield


def has_marker(folder: Path) -> bool:
    """Whether the folder is one of ours, whatever became of its marker's content."""
    return os.path.lexists(folder / MARKER_FILE)


def view_bases(store: ViewStore) -> dict[str, Path]:
    """The base folder of every view whose marker can be read."""
    markers = {name: read_marker(store.path(name)) for name in store.names()}
    return {name: Path(marker.base) for name, marker in markers.items() if marker is not None}


def store_fault(store: ViewStore, error: OSError) -> ToolkitError:
    """The error for a disk that did not do what it was asked."""
    return CheckFailedError(
        f"the view store {store.root} cannot be changed: {error.strerror or error}",
        where=str(error.filename or store.root),
        fix="free some space there, or set views.root to a writable folder on another disk, and run this again",
    )


def _folder(path: Path) -> None:
    try:
        disk.make_folder(path)
    except FileExistsError:
        if path.is_symlink():  # what is written there would come to lie elsewhere, perhaps in a checkpoint
            raise NotADirectoryError(ENOTDIR, "a folder of the store is a symbolic link", str(path)) from None
        if not path.is_dir():
            raise
