"""The files of a checkpoint's folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from errno import ENOTDIR
from pathlib import Path

from toolkit.checkpoint.safetensors_header import open_fault
from toolkit.errors import ConfigurationError

_FIX = "set checkpoint.source.path to the folder that holds config.json and the safetensors files"


def list_names(folder: Path) -> frozenset[str]:
    """What the folder itself holds; ConfigurationError where it cannot be listed."""
    try:
        return frozenset(entry.name for entry in folder.iterdir())
    except OSError as error:
        reason = "is a file, not a folder" if error.errno == ENOTDIR and folder.is_file() else _reason(error)
        raise ConfigurationError(f"the checkpoint's folder {folder} {reason}", fix=_FIX) from None


def list_files(folder: Path) -> dict[str, int]:
    """Bytes of every file below `folder`, by relative path, through links; names with a leading dot are left out.

    Links that lead nowhere are left out as well: whoever needs such a file says so. Raises ConfigurationError where a
    folder below cannot be listed.
    """
    try:
        status = folder.stat()
        return dict(sorted(_walk(os.fspath(folder), "", ((status.st_dev, status.st_ino),))))
    except OSError as error:
        what = f"{error.filename or folder} is {open_fault(error)}"
        raise ConfigurationError(what, fix="make every folder of the checkpoint readable") from None


def _reason(error: OSError) -> str:
    text = open_fault(error)
    return text if text.startswith("does") else f"is {text}"


def _walk(folder: str, prefix: str, above: tuple[tuple[int, int], ...]) -> Iterator[tuple[str, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            try:
                status = entry.stat()
            except OSError:
                continue
            identity = (status.st_dev, status.st_ino)
            if stat.S_ISREG(status.st_mode):
                yield prefix + entry.name, status.st_size
            elif stat.S_ISDIR(status.st_mode) and identity not in above:  # a link back up would never end
                yield from _walk(entry.path, f"{prefix}{entry.name}/", (*above, identity))
