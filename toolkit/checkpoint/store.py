"""A content-addressed cache of folders that are made once: `ROOT/NAME-DIGEST12/`.

An entry is built in `ROOT/.staging/` beside the others, synced, and published by one rename, so at any kill there is
the whole entry or none. One process builds, the others wait for its lock; whatever lies in staging while nobody holds
the lock of that name was left by a dead builder and is removed.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from errno import EACCES, EDQUOT, EFBIG, EIO, ENOLCK, ENOSPC, ENOTDIR, EPERM, EROFS
from pathlib import Path
from typing import Any

from toolkit.checkpoint.progress import Progress, step
from toolkit.errors import CheckFailedError, ToolkitError
from toolkit.storage import disk
from toolkit.storage.cache_tag import tag_cache
from toolkit.storage.lock import locked, locked_if_free

MANIFEST = ".manifest.json"

ASIDE = "~"
"""Staging folders named NAME~... hold what the builder of NAME needs beside the entry, and go with it."""

_DISK_FAULTS = frozenset({ENOSPC, EDQUOT, EFBIG, EIO, ENOLCK, EROFS, EACCES, EPERM, ENOTDIR})


@dataclass(frozen=True)
class Key:
    """What an entry is made from; a change of any part makes another entry."""

    label: str
    """The first part of the entry's name, for people."""
    identity: Mapping[str, Any]
    """Plain data."""

    @property
    def name(self) -> str:
        """The folder's name."""
        text = json.dumps(dict(self.identity), sort_keys=True, ensure_ascii=True)
        label = re.sub(r"[^A-Za-z0-9._-]+", "-", self.label).lstrip(".-") or "entry"
        return f"{label[:80]}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


@dataclass(frozen=True)
class Store:
    """The cache below `root`."""

    root: Path

    @classmethod
    def at(cls, cache: Path | None) -> Store:
        """The store below `cache`, or below the user's cache folder."""
        if cache is None:
            from platformdirs import user_cache_path

            cache = user_cache_path("volta-toolkit")
        return cls(cache / "checkpoints")

    def path(self, key: Key) -> Path:
        """Where the entry is or would be."""
        return self.root / key.name

    def find(self, key: Key) -> Path | None:
        """The entry's folder if it is there with every file at its recorded length; reads no file but the manifest."""
        folder = self.path(key)
        try:
            recorded = json.loads((folder / MANIFEST).read_bytes())["files"]
            whole = all((folder / file).stat().st_size == entry["bytes"] for file, entry in recorded.items())
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return folder if whole else None

    def build(self, key: Key, make: Callable[[Path], None], progress: Progress) -> Path:
        """The entry's folder; where it is not there (or damaged), `make` fills an empty folder that becomes it."""
        try:
            return self.find(key) or self._build(key, make, progress)
        except OSError as error:
            if error.errno in _DISK_FAULTS:
                raise _cache_fault(self.root, error) from error
            raise

    def _build(self, key: Key, make: Callable[[Path], None], progress: Progress) -> Path:
        self._prepare()
        waiting = step(progress, f"waiting for another process to make {key.name}", None)
        with locked(self._lock(key.name), waiting):
            found = self.find(key)  # another process may have made it while this one waited
            if found:
                return found
            self._sweep(key.name)
            staging = self.root / ".staging" / key.name
            staging.mkdir()
            try:
                make(staging)
                _seal(staging, key)
                disk.publish(staging, self.path(key))
            except BaseException:
                _remove(staging)
                raise
            _remove(staging)  # there still where a damaged entry was in the place; its readers keep their open files
        return self.path(key)

    def _prepare(self) -> None:
        for folder in (self.root, self.root / ".staging", self.root / ".locks"):
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except FileExistsError as error:  # a file has its name
                raise _cache_fault(self.root, error) from None
        tag_cache(self.root, self._lock("store"))

    def _lock(self, name: str) -> Path:
        return self.root / ".locks" / f"{name}.lock"

    def _sweep(self, mine: str) -> None:
        """Remove what dead builders left; the lock of `mine` is held."""
        for left in (self.root / ".staging").iterdir():
            name = left.name.partition(ASIDE)[0]
            if name == mine:
                _remove(left)
                continue
            with locked_if_free(self._lock(name)) as free:
                if free:
                    _remove(left)


def verify(folder: Path) -> tuple[str, ...]:
    """What differs between an entry and its manifest, every byte read; empty if nothing does."""
    recorded = json.loads((folder / MANIFEST).read_bytes())["files"]
    found = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()} - {MANIFEST}
    faults = [f"{file} is not in the manifest" for file in sorted(found - recorded.keys())]
    for file, entry in recorded.items():
        if file not in found:
            faults.append(f"{file} is missing")
        elif _digest(folder / file) != entry["sha256"]:
            faults.append(f"{file} has changed")
    return tuple(faults)


def _seal(folder: Path, key: Key) -> None:
    """Write the manifest, take the write permission from the files, and sync all of it to the disk."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    record = {
        file.relative_to(folder).as_posix(): {"bytes": file.stat().st_size, "sha256": _digest(file)} for file in files
    }
    manifest = folder / MANIFEST
    manifest.write_text(json.dumps({"made_from": dict(key.identity), "files": record}, indent=1) + "\n")
    for file in (*files, manifest):
        file.chmod(0o444)
        disk.sync(file)
    disk.sync_tree(folder)


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _remove(folder: Path) -> None:
    # What cannot be removed now (a dead builder's pip may still write there) is tried again by the next build.
    shutil.rmtree(folder, ignore_errors=True)


def _cache_fault(root: Path, error: OSError) -> ToolkitError:
    return CheckFailedError(
        f"the cache {root} cannot be written: {error.strerror or error}",
        where=str(error.filename or root),
        fix="free some space there, or set XDG_CACHE_HOME to a folder on a local disk that you can write to",
    )
