"""What `verify` has read: the last whole run, and how far an interrupted one came.

.hashes/NAME.json            every file's record of the last whole run; a file's first record is what later ones
                             are compared with, where nothing else says what it must be
.hashes/NAME.partial.jsonl   one record a line, as files are read; a run that was broken off less than an hour ago
                             goes on from there
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from toolkit.storage import disk
from toolkit.views.plain import checked
from toolkit.views.store import ViewStore

_RESUME_WITHIN_S = 3600.0


@dataclass(frozen=True)
class HashRecord:
    """A file as it was read."""

    path: str
    size: int
    """Bytes."""
    mtime_ns: int
    inode: int
    sha256: str
    at: float
    """Seconds since the epoch."""

    def still(self, status: os.stat_result) -> bool:
        """Whether the file has the same inode, length and modification time."""
        return (self.size, self.mtime_ns, self.inode) == (status.st_size, status.st_mtime_ns, status.st_ino)


class HashLog:
    """The records of one view; the view's verify lock is held while it is open."""

    def __init__(self, store: ViewStore, name: str) -> None:
        self._final = store.hashes / f"{name}.json"
        self._partial = store.hashes / f"{name}.partial.jsonl"
        self.last = _read_last(self._final)
        """Records of the last whole run, by path."""
        self.resumed = _read_partial(self._partial)
        """Records of the run that was broken off."""

    def add(self, record: HashRecord) -> None:
        """Note a file that has been read."""
        self._partial.parent.mkdir(exist_ok=True)
        with self._partial.open("a", encoding="ascii") as stream:
            stream.write(json.dumps(asdict(record)) + "\n")

    def finish(self, records: Mapping[str, HashRecord]) -> None:
        """Note a whole run, and forget how far it was."""
        data = {path: asdict(record) for path, record in sorted(records.items())}
        self._final.parent.mkdir(exist_ok=True)
        disk.replace_file(self._final, (json.dumps(data, indent=1) + "\n").encode())
        disk.remove(self._partial)


def log_files(store: ViewStore, name: str) -> tuple[Path, ...]:
    """Every file that a view's log may have left."""
    names = (f"{name}.json", f".{name}.json.new", f"{name}.partial.jsonl")
    return tuple(store.hashes / file for file in names)


def _read_last(path: Path) -> dict[str, HashRecord]:
    try:
        records = json.loads(path.read_bytes()).items()
        return {name: HashRecord(**checked(HashRecord, record)) for name, record in records}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _read_partial(path: Path) -> dict[str, HashRecord]:
    try:
        lines = path.read_text("ascii").splitlines()
    except (OSError, ValueError):
        return {}
    found = {}
    for line in lines:
        try:
            record = HashRecord(**checked(HashRecord, json.loads(line)))
        except (ValueError, TypeError, RecursionError):  # the last line of a run that was killed
            continue
        if time.time() - record.at < _RESUME_WITHIN_S:
            found[record.path] = record
    return found
