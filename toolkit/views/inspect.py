"""A view's structure against its marker: which files are there, as what, and where links lead. No content is read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from toolkit.checkpoint.safetensors_header import open_fault
from toolkit.views.marker import MARKER_FILE, FreshFile, LinkedFile, Marker


class Owner(Enum):
    """Whose file it is: the view's own can be made again, the base's is only named."""

    view = "view"
    base = "base"


@dataclass(frozen=True)
class Fault:
    """What is wrong with one file."""

    path: str
    owner: Owner
    reason: str


@dataclass(frozen=True)
class Sound:
    """A file whose content is worth reading."""

    path: str
    file: Path
    owner: Owner
    status: os.stat_result
    sha256: str | None
    """What it must have, as far as the marker says."""
    mtime_ns: int | None
    """What a file of the base had when the view was made."""

    @property
    def size(self) -> int:
        """Bytes."""
        return self.status.st_size


def inspect(folder: Path, marker: Marker) -> Iterator[Sound | Fault]:
    """Every file of the view, sound or not, and whatever else lies in its folder."""
    expected = {*marker.files, MARKER_FILE}
    for path in sorted(_files(folder) - expected):
        yield Fault(path, Owner.view, "is no file of this view")
    for file in marker.fresh:
        yield _fresh(folder, file)
    for link in marker.links:
        yield _linked(folder, link) if link.method == "symlink" else _taken(folder, link)


def _files(folder: Path) -> set[str]:
    """Everything below the folder that is no folder; links to folders are not followed."""
    found = set()
    for parent, folders, files in os.walk(folder):
        linked = [name for name in folders if (Path(parent) / name).is_symlink()]
        found |= {(Path(parent) / name).relative_to(folder).as_posix() for name in (*files, *linked)}
    return found


def _fresh(folder: Path, file: FreshFile) -> Sound | Fault:
    return _own(folder, file.path, file.size, file.sha256, None)


def _taken(folder: Path, link: LinkedFile) -> Sound | Fault:
    return _own(folder, link.path, link.size, link.sha256, None)


def _own(folder: Path, path: str, size: int, sha256: str | None, mtime_ns: int | None) -> Sound | Fault:
    """A file that must be a real one inside the view."""
    file = folder / path
    if os.path.realpath(file) != os.path.join(os.path.realpath(folder), path):  # noqa: PTH118
        target = os.path.realpath(file)
        return Fault(path, Owner.view, f"is a symbolic link that leads to {target}, not a file of the view's own")
    try:
        status = file.lstat()
    except OSError as error:
        return Fault(path, Owner.view, open_fault(error))
    if not stat.S_ISREG(status.st_mode):
        return Fault(path, Owner.view, "is not a file")
    if status.st_size != size:
        return Fault(path, Owner.view, f"has {status.st_size} bytes, not {size}")
    return Sound(path, file, Owner.view, status, sha256, mtime_ns)


def _linked(folder: Path, link: LinkedFile) -> Sound | Fault:
    file = folder / link.path
    try:
        target = os.readlink(file)  # noqa: PTH115 - the text itself
    except OSError as error:
        reason = open_fault(error) if not os.path.lexists(file) else "is not the link that it was"
        return Fault(link.path, Owner.view, reason)
    if target != link.target:
        return Fault(link.path, Owner.view, f"points to {target}, not to {link.target}")
    try:
        status = file.stat()
    except OSError as error:
        return Fault(link.path, Owner.base, open_fault(error))
    if not stat.S_ISREG(status.st_mode):
        return Fault(link.path, Owner.base, "is not a file")
    if status.st_size != link.size:
        return Fault(link.path, Owner.base, f"has {status.st_size} bytes, it had {link.size} when the view was made")
    return Sound(link.path, file, Owner.base, status, link.sha256, link.mtime_ns)
