"""A lock between processes that the kernel releases when its holder dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path, waiting: AbstractContextManager[object]) -> Iterator[None]:
    """Hold the lock at `path`; `waiting` is entered while another process holds it.

    The file stays: removing it would let two processes hold two locks of one name. Local file systems only: NFS may
    not pass flock on.
    """
    with _opened(path) as descriptor:
        if not _try_lock(descriptor):
            with waiting:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


@contextmanager
def locked_if_free(path: Path) -> Iterator[bool]:
    """Hold the lock at `path` if nobody else does; yields whether."""
    with _opened(path) as descriptor:
        yield _try_lock(descriptor)


@contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Hold the lock at `path` if nobody else does, and take its file away in the end; yields whether.

    A holder that was killed leaves the file, which anybody may claim. Never wait for such a lock: who waits would get
    the lock of a file that is gone.
    """
    with _opened(path) as descriptor:
        mine = _try_lock(descriptor) and _lies_at(path, descriptor)
        try:
            yield mine
        finally:
            if mine:
                path.unlink(missing_ok=True)


def _lies_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        yield descriptor
    finally:
        os.close(descriptor)  # releases the lock


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
