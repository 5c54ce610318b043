"""Our own native library: whether it is there, and was built from the sources that lie beside it."""

from __future__ import annotations

import sys
from pathlib import Path

from toolkit.errors import CheckFailedError
from toolkit.machine.facts import NativeLibrary
from toolkit.machine.guard import CannotReadError
from toolkit.native.build import sources_digest
from toolkit.native.info import info

SOURCES = Path(__file__).resolve().parents[2] / "kernels"
"""The kernels of a checkout; an installed wheel has none."""


def native(python: str, sources: Path = SOURCES) -> NativeLibrary:
    """The library that engine=v100 loads. Raises CannotReadError where another interpreter than this one serves."""
    if python != sys.executable:
        raise CannotReadError("another interpreter serves, and only this one's library can be found")
    try:
        found = info()
    except CheckFailedError as error:
        return NativeLibrary(None, fault=error.what)
    built_from = sources_digest(sources) if (sources / "CMakeLists.txt").is_file() else None
    return NativeLibrary(found.path, current=built_from is None or built_from == found.kernels_sha256)
