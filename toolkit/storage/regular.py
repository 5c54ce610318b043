"""Reading files of folders that others fill: what only looks like a file there must not be waited for."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path) -> BinaryIO:
    """The file at `path`, open for reading.

    Raises:
        OSError: there is none, or it is a folder, a FIFO, a socket or a device; none of these is opened or waited for.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb")  # it may be exchanged meanwhile


def read_regular(path: Path) -> bytes:
    """All bytes of the file at `path`; raises as `open_regular`."""
    with open_regular(path) as file:
        return file.read()
