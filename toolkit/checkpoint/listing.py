"""The files of a checkpoint's folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from toolkit.checkpoint.safetensors_header import open_fault
from toolkit.errors import ConfigurationError

_FIX = "set checkpoint.source.path to the folder that holds config.json and the safetensors files"


def list_files(folder: Path) -> dict[str, int]:
    """Bytes of every file below `folder`, by relative path, through links; names with a leading dot are left out.

    Links that lead nowhere are left out as well: whoever needs such a file says so. Raises ConfigurationError where
    the folder itself cannot be listed.
    """
    try:
        status = folder.stat()
        return dict(sorted(_walk(os.fspath(folder), "", ((status.st_dev, status.st_ino),))))
    except OSError as error:
        where = Path(error.filename or folder)
        if where != folder:
            raise ConfigurationError(f"{where} is {open_fault(error)}", fix="make the folder readable") from None
        reason = "is a file, not a folder" if folder.is_file() else _reason(error)
        raise ConfigurationError(f"the checkpoint's folder {folder} {reason}", fix=_FIX) from None


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
