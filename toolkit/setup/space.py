"""Disk space: refused before the first byte is fetched, not after the last that fits."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from toolkit.errors import CheckFailedError

GB = 10**9
# A full installation and pip's temporary files, measured and rounded up.
NEEDED = {"cpu": 4 * GB, "test": 5 * GB, "v100": 12 * GB}


def size(folder: Path) -> int:
    """Bytes that a folder's files take on the disk."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_blocks * 512  # noqa: PTH118 - 60,000 files, in a second
            except OSError:
                continue
    return total


def shortfall(needed: int, present: int, free: int) -> int:
    """Bytes that are missing, where some of what is needed is already there."""
    return max(0, needed - present - free)


def check(venv: Path, name: str) -> None:
    """Refuse, by CheckFailedError, a disk on which the set cannot fit."""
    folder = venv if venv.is_dir() else venv.parent
    free = shutil.disk_usage(folder).free
    missing = shortfall(NEEDED[name], size(venv), free)
    if missing:
        raise CheckFailedError(
            f"the disk is too small: {missing / GB:.1f} GB more are needed",
            where=str(folder.resolve()),
            why=f"the installation takes {NEEDED[name] / GB:.1f} GB; {free / GB:.1f} GB are free",
            fix=f"free some space, or let {venv.name} be a link to an empty folder on a larger disk",
        )
