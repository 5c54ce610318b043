"""Taking the base's files into a view: by reflink, by relative symbolic link, or by copy."""

from __future__ import annotations

import os
from collections.abc import Iterable
from errno import EINVAL, ENOSYS, ENOTTY, EOPNOTSUPP, EPERM, EXDEV
from pathlib import Path

from toolkit.checkpoint.progress import Progress, step
from toolkit.config.schema.views import LinkChoice
from toolkit.errors import CheckFailedError
from toolkit.views import disk
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
        while methods[0] != "copy" and not _linked(methods[0], base, file, folder):
            methods.pop(0)
            if not methods:
                raise _impossible(choice, folder)
        if methods[0] == "copy":
            rest.append(file)
        else:
            taken.append(_record(base, file, folder, methods[0]))
    if rest:
        _copy(base, rest, folder, progress)
    return (*taken, *(_record(base, file, folder, "copy") for file in rest))


def target_of(base: Path, path: str, folder: Path) -> str:
    """What the link of a file says: the way from the link's own folder; both paths are free of symbolic links."""
    return os.path.relpath(base / path, (folder / path).parent)


def _linked(method: str, base: Path, file: BaseFile, folder: Path) -> bool:
    """Whether the file system could link the file."""
    try:
        if method == "reflink":
            disk.clone_file(base / file.path, folder / file.path)
        else:
            (folder / file.path).symlink_to(target_of(base, file.path, folder))
    except OSError as error:
        if error.errno in UNSUPPORTED:
            return False
        raise
    return True


def _copy(base: Path, files: list[BaseFile], folder: Path, progress: Progress) -> None:
    total = sum(file.size for file in files)
    what = f"copying {len(files)} files, {total:,} bytes, of {base}"
    with step(progress, what, total):
        for file in files:
            disk.copy_file(base / file.path, folder / file.path, progress.advance)


def _record(base: Path, file: BaseFile, folder: Path, method: str) -> LinkedFile:
    target = target_of(base, file.path, folder)
    return LinkedFile(file.path, method, target, file.size, file.mtime_ns, file.sha256)


def _impossible(choice: LinkChoice, folder: Path) -> CheckFailedError:
    return CheckFailedError(
        f"the file system of {folder.parent} cannot make a {choice.value} of the checkpoint's files",
        fix="set views.links=auto, or views.root to a folder on the checkpoint's file system",
    )
