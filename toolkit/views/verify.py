"""Reading a view again, byte by byte, and making again what is its own."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from toolkit.checkpoint.progress import Progress, step
from toolkit.counted import counted
from toolkit.errors import CheckFailedError, Rejected
from toolkit.storage.lock import locked
from toolkit.views.hash_log import HashLog, HashRecord
from toolkit.views.hashing import Hashed, hash_files
from toolkit.views.inputs import ViewInputs, read_spec
from toolkit.views.inspect import Fault, Owner, Sound, inspect
from toolkit.views.lease import lease
from toolkit.views.marker import MARKER_FILE, Marker, read_marker
from toolkit.views.materialize import MaterializedView, rebuild
from toolkit.views.store import ViewStore, store_fault


@dataclass(frozen=True)
class Verdict:
    """What reading a view again found."""

    name: str
    faults: tuple[Fault, ...]
    files: int
    bytes_read: int
    cached: int
    """Files whose last hash was taken, as they have not changed since (`fast`, or a run that was broken off)."""
    recorded: tuple[str, ...]
    """Files of the base whose SHA-256 was not known before: from now on they are compared with what they are now."""


def verify(store: ViewStore, name: str, progress: Progress, *, fast: bool = False, threads: int = 0) -> Verdict:
    """Compare a view with its marker, and its files with their hashes; nothing of it is changed.

    fast: take the last hash of a file with the same inode, length and modification time.
    threads: files read at once; 0 for one a processor. Raises CheckFailedError where the store cannot be written.
    """
    try:
        store.prepare()
        waiting = step(progress, f"waiting for another process to verify {name}", None)
        with lease(store, name), locked(store.lock_file(name, "verify"), waiting):
            return _verify(store, name, progress, fast=fast, threads=threads)
    except OSError as error:
        raise store_fault(store, error) from error


def _verify(store: ViewStore, name: str, progress: Progress, *, fast: bool, threads: int) -> Verdict:
    folder = store.path(name)
    marker = read_marker(folder)
    if marker is None or marker.name != name:
        reason = "is missing, unreadable or another view's"
        return Verdict(name, (Fault(MARKER_FILE, Owner.view, reason),), 0, 0, 0, ())
    found = list(inspect(folder, marker))
    sound = [item for item in found if isinstance(item, Sound)]
    log = HashLog(store, name)
    known = _unchanged(sound, log, fast=fast)
    todo = [item for item in sound if item.path not in known]
    hashes = {path: Hashed(record.sha256) for path, record in known.items()}
    total = sum(item.size for item in todo)
    with step(progress, f"reading {counted(len(todo), 'file')} of {name}", total):
        for item, hashed in hash_files(todo, threads, progress.advance):
            hashes[item.path] = hashed
            if hashed.sha256:
                log.add(_record(item, hashed.sha256))
    judged = {item.path: _judge(item, hashes[item.path], log.last.get(item.path)) for item in sound}
    faults = [item for item in found if isinstance(item, Fault)] + [fault for fault in judged.values() if fault]
    # A fault keeps the record it was compared with, so that it is found again.
    good = {item.path: _record(item, hashes[item.path].sha256) for item in sound if judged[item.path] is None}
    log.finish({**log.last, **good})
    recorded = tuple(item.path for item in sound if item.path in good and not _expected(item, log.last.get(item.path)))
    return Verdict(name, tuple(faults), len(marker.files), total, len(known), recorded)


def _unchanged(sound: Sequence[Sound], log: HashLog, *, fast: bool) -> dict[str, HashRecord]:
    """The records that stand for a file's content without reading it."""
    records = {**(log.last if fast else {}), **log.resumed}
    return {
        item.path: records[item.path]
        for item in sound
        if item.path in records and records[item.path].still(item.status)
    }


def _record(item: Sound, sha256: str) -> HashRecord:
    status = item.status
    return HashRecord(item.path, status.st_size, status.st_mtime_ns, status.st_ino, sha256, time.time())


def _expected(item: Sound, last: HashRecord | None) -> str | None:
    return item.sha256 or (last.sha256 if last else None)


def _judge(item: Sound, hashed: Hashed, last: HashRecord | None) -> Fault | None:
    if hashed.fault:
        return Fault(item.path, item.owner, hashed.fault)
    expected = _expected(item, last)
    if expected is None and item.mtime_ns not in (None, item.status.st_mtime_ns):
        return Fault(item.path, item.owner, "was written to after the view was made")
    if expected is not None and hashed.sha256 != expected:
        return Fault(item.path, item.owner, f"its content has changed: SHA-256 {hashed.sha256}, not {expected}")
    return None


def repair(store: ViewStore, name: str, progress: Progress) -> MaterializedView:
    """Make a view again from what its marker says; the base is only read.

    Raises CheckFailedError where the marker is lost, or the base or a pack is no longer what it was.
    """
    marker = read_marker(store.path(name))
    inputs = _inputs(marker)
    if marker is None or inputs is None:
        raise CheckFailedError(
            f"{name} has lost its marker, which says what it was made from",
            where=str(store.path(name) / MARKER_FILE),
            fix="run `python -m toolkit.materialize` with its recipe, which makes it again",
        )
    spec = read_spec(inputs)
    if spec.name != name:
        raise CheckFailedError(
            f"{name} cannot be made again: the checkpoint or a scale pack has changed since",
            where=marker.base,
            fix="bring the old files back, or run `python -m toolkit.materialize`, which makes a new view",
            rejected=[Rejected(path, "is no longer what it was") for path in _changed(marker)],
        )
    try:
        store.prepare()
        return rebuild(spec, store, progress)
    except OSError as error:
        raise store_fault(store, error) from error


def _inputs(marker: Marker | None) -> ViewInputs | None:
    return ViewInputs.from_data(marker.made_from) if marker else None


def _changed(marker: Marker) -> list[str]:
    """The base's files whose length or time is not what it was."""
    changed = []
    for link in marker.links:
        try:
            status = os.stat(Path(marker.base) / link.path)  # noqa: PTH116
        except OSError:
            changed.append(link.path)
            continue
        if (status.st_size, status.st_mtime_ns) != (link.size, link.mtime_ns):
            changed.append(link.path)
    return changed
