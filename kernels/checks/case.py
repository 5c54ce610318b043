"""One check of an operator, with a name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernels.checks.compare import FLOAT, HALF, Deviation

TYPE_NAMES = {HALF: "f16", FLOAT: "f32"}


@dataclass(frozen=True)
class Case:
    """One check: `run(device, seed)` raises AssertionError, or says how close the result was (None: exact)."""

    name: str
    run: Callable[[str, int], Deviation | None]


def case(name: str, check: Callable[..., Deviation | None], *arguments: Any, **options: Any) -> Case:
    """A check that takes the device first, and the seed by name."""
    return Case(name, lambda device, seed: check(device, *arguments, seed=seed, **options))
