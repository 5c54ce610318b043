"""Taking the base's files into a view: by reflink, by relative symbolic link, or by copy."""

from __future__ import annotations

import os
from collections.abc import Iterable
from errno import EINVAL, ENOSYS, ENOTTY, EOPNOTSUPP, EPERM, EXDEV
from pathlib import Path

from toolkit.checkpoint.progress import Progress, step
from toolkit.config.schema.views import LinkChoice
from toolkit.counted import counted
from toolkit.errors import CheckFailedError
from toolkit.storage import disk
from toolkit.views.base import BaseFile
from toolkit.views.marker import LinkedFile

UNSUPPORTED = frozenset({EOPNOTSUPP, EXDEV, EINVAL, ENOTTY, ENOSYS, EPERM})
"""What a file system answers that has no reflinks, or no symbolic links; other errors are faults."""


def link_files(
    base: Path, files: Iterable[BaseFile], choice: LinkChoice, folder: Path, progress: Progress
) -> tuple[LinkedFile, ...]:
    """Take the files into `folder`, whose subfolders are there; says how each was taken.

    Raises OSError for a fault of the disk, CheckFailedError where the file system cannot do what `choice` demands.
    """
    methods = ["reflink", "symlink", "copy"] if choice is LinkChoice.auto else [choice.value]
    taken: list[LinkedFile] = []
    rest: list[BaseFile] = []
    for file in files:
        target = target_of(base, file.path, folder)
        while methods[0] != "copy" and not _linked(methods[0], base / file.path, folder / file.path, target):
            methods.pop(0)
            if not methods:
                raise _impossible(choice, folder)
        if methods[0] == "copy":
            rest.append(file)
        taken.append(LinkedFile(file.path, methods[0], target, file.size, file.mtime_ns, file.sha256))
    if rest:
        _copy(base, rest, folder, progress)
    return tuple(taken)


def target_of(base: Path, path: str, folder: Path) -> str:
    """What the link of a file says: the way from the link's own folder; both paths are free of symbolic links."""
    return os.path.relpath(base / path, (folder / path).parent)


def _linked(method: str, source: Path, path: Path, target: str) -> bool:
    """Whether the file system could link the file."""
    try:
        if method == "reflink":
            disk.clone_file(source, path)
        else:
            path.symlink_to(target)
    except OSError as error:
        if error.errno in UNSUPPORTED:
            return False
        raise
    return True


def _copy(base: Path, files: list[BaseFile], folder: Path, progress: Progress) -> None:
    total = sum(file.size for file in files)
    what = f"copying {counted(len(files), 'file')}, {counted(total, 'byte')}, of {base}"
    with step(progress, what, total):
        for file in files:
            disk.copy_file(base / file.path, folder / file.path, progress.advance)


def _impossible(choice: LinkChoice, folder: Path) -> CheckFailedError:
    return CheckFailedError(
        f"the file system of {folder.parent} cannot make a {choice.value} of the checkpoint's files",
        fix="set views.links=auto, or views.root to a folder on the checkpoint's file system",
    )
