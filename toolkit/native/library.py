"""Finding the native library and loading it into torch."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from toolkit.errors import CheckFailedError
from toolkit.native import fakes

FILE_NAME = "volta_native.so"
OPERATORS = (*fakes.MUTATING, *fakes.MAKING)
"""Every operator that takes tensors, by name."""


def find() -> Path:
    """The library of this installation: beside this file (a wheel), or in build/native (a checkout).

    Raises CheckFailedError when there is none.
    """
    package = Path(__file__).resolve().parent
    places = (package / FILE_NAME, package.parents[1] / "build" / "native" / FILE_NAME)
    for place in places:
        if place.is_file():
            return place
    raise CheckFailedError(
        "the native library is not built",
        where=" or ".join(str(place) for place in places),
        why="this installation carries no compiled operators",
        fix="invoke build, or install a wheel that it made",
    )


@cache
def load() -> Path:
    """Define torch.ops.volta in this process, with the fakes that torch.compile needs; return the library's path.

    Safe to call more than once. Needs no GPU: the driver is opened when the first CUDA tensor arrives.
    """
    import torch

    path = find()
    torch.ops.load_library(str(path))  # type: ignore[no-untyped-call]
    fakes.register()
    return path
