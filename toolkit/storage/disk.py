"""Changes on the disk in small steps, between which a power cut may come: each brings what it made to the disk.

All of it goes through functions of `os` (pathlib calls them), so that the tests can fail or kill each single one.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from errno import EEXIST, EINVAL, ENOSYS, EOPNOTSUPP
from pathlib import Path

FILE_MODE = 0o644  # the engine may run as another user
FOLDER_MODE = 0o755
CHUNK = 1 << 20

_FICLONE = 0x40049409
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_NO_EXCHANGE = {EINVAL, ENOSYS, EOPNOTSUPP}


def make_folder(path: Path) -> None:
    """A new folder that everybody can read, whatever the umask is."""
    path.mkdir()
    path.chmod(FOLDER_MODE)


def write_file(path: Path, data: bytes) -> None:
    """A new file with this content, on the disk when this returns; FileExistsError where there is one."""
    with _created(path) as descriptor:
        _write(descriptor, data)


def copy_file(source: Path, path: Path, report: Callable[[int], None]) -> None:
    """A new file with another's content, on the disk when this returns; `report` is told of bytes copied."""
    reading = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with _created(path) as descriptor:
            while data := os.read(reading, CHUNK):
                _write(descriptor, data)
                report(len(data))
    finally:
        os.close(reading)


def clone_file(source: Path, path: Path) -> None:
    """A new file that shares the source's blocks (a reflink); OSError, and no file, where that cannot be."""
    reading = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with _created(path) as descriptor:
            fcntl.ioctl(descriptor, _FICLONE, reading)
    except OSError:
        with suppress(FileNotFoundError):
            path.unlink()
        raise
    finally:
        os.close(reading)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


@contextmanager
def _created(path: Path) -> Iterator[int]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, FILE_MODE)
    try:
        yield descriptor
        os.fchmod(descriptor, FILE_MODE)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync(path: Path) -> None:
    """Bring a file's content, or a folder's entries but not those of the folders in it, to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(root: Path) -> None:
    """Bring all folders to the disk, the innermost first."""
    for folder, _, _ in os.walk(root, topdown=False):
        sync(Path(folder))


def replace_file(path: Path, data: bytes) -> None:
    """Put a file in another's place, so that a reader finds the old or the new one; one writer at a time."""
    with _replacing(path) as aside:
        write_file(aside, data)


def point(link: Path, target: str) -> None:
    """Let a symbolic link point to `target`, by one rename; one writer at a time."""
    with _replacing(link) as aside:
        aside.symlink_to(target)


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A place beside `path`; what is made there takes its name, and is gone where making it failed."""
    aside = path.with_name(f".{path.name}.new")
    remove(aside)
    try:
        yield aside
        aside.replace(path)
    except BaseException:
        remove(aside)
        raise
    sync(path.parent)


def publish(staging: Path, final: Path) -> None:
    """Give a finished folder its name; where a folder has that name already, the two change places.

    The folder that was there lies in `staging` then.
    """
    if not os.path.lexists(final):
        staging.rename(final)
    else:
        exchange(staging, final)
    sync(final.parent)


def publish_new(staging: Path, final: Path) -> None:
    """Give a finished folder a name that is free; FileExistsError where it is taken."""
    if os.path.lexists(final):
        raise FileExistsError(EEXIST, os.strerror(EEXIST), str(final))
    staging.rename(final)  # fails by itself where a folder was made and filled meanwhile
    sync(final.parent)


def exchange(one: Path, other: Path) -> None:
    """Let two folders change names in one step; in three where the file system knows no such step."""
    try:
        rename_exchange(os.fsencode(one), os.fsencode(other))
    except OSError as error:
        if error.errno not in _NO_EXCHANGE:
            raise
        between = one.with_name(f"{one.name}.old")
        other.rename(between)
        one.rename(other)
        between.rename(one)


def rename_exchange(one: bytes, other: bytes) -> None:
    """Call renameat2(RENAME_EXCHANGE), which `os` does not offer. Raises OSError, as `os.rename` does."""
    libc = ctypes.CDLL(None, use_errno=True)
    function = getattr(libc, "renameat2", None)
    if function is None:
        raise OSError(ENOSYS, os.strerror(ENOSYS))
    if function(_AT_FDCWD, one, _AT_FDCWD, other, _RENAME_EXCHANGE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), os.fsdecode(other))


def remove(path: Path) -> None:
    """Remove a file, a link or a folder with all in it, if it is there; links are never followed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
        return
    with suppress(FileNotFoundError):
        path.unlink()
