"""Which of E4M3's codes a scale uses: what shows a scale that is too large, long before an answer gets worse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from toolkit.calibration.distribution import E4M3_NORMAL, Distribution
from toolkit.views.scales.float32 import E4M3_MAX


@dataclass(frozen=True)
class CodeUse:
    """Shares (0..1) of all elements, each without the part of one bin in which its limit lies."""

    largest_code: float
    """The largest number that is stored, of 448; of several layers, that of the layer whose largest is smallest."""
    saturated: float
    """Clipped: what a scale too small costs."""
    subnormal: float
    """Stored with three significant bits or fewer, where E4M3 has four: what a scale too large costs."""
    lost: float
    """Not zero, and stored as zero."""


def code_use(stored: Sequence[tuple[Distribution, float]]) -> CodeUse:
    """Of one layer or several, each with its scale; at least one."""
    count = sum(found.count for found, _ in stored) or 1

    def share(of: list[float]) -> float:
        return sum(part * found.count for part, (found, _) in zip(of, stored, strict=True)) / count

    return CodeUse(
        largest_code=min(e4m3(found.largest / scale) for found, scale in stored),
        saturated=share([found.saturated(scale) for found, scale in stored]),
        subnormal=share([found.subnormal(scale) for found, scale in stored]),
        lost=share([found.lost(scale) for found, scale in stored]),
    )


def e4m3(magnitude: float) -> float:
    """The E4M3 number nearest to a finite magnitude, ties to even; 448 for all beyond."""
    octave = max(math.frexp(magnitude)[1] - 1, round(math.log2(E4M3_NORMAL)))
    step = 2.0 ** (octave - 3)
    return min(E4M3_MAX, round(magnitude / step) * step)
