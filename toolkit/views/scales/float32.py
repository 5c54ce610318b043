"""FP32 values as a scale file stores them, without numpy."""

from __future__ import annotations

import math
import struct

SMALLEST_NORMAL = 2.0**-126
E4M3_MAX = 448.0
"""The largest finite value of FP8 E4M3."""


def scale_of(max_abs: float) -> float:
    """The scale under which the largest magnitude seen still fits E4M3: max_abs / 448, rounded up in FP32.

    Rounded up, as a scale that is one bit too small would clip the maximum itself.
    """
    return round_up(max_abs / E4M3_MAX)


def round_up(value: float) -> float:
    """The smallest FP32 number that is not less than a value of zero or more; OverflowError above FP32's range."""
    nearest = float(struct.unpack("<f", struct.pack("<f", value))[0])
    if nearest >= value:
        return nearest
    bits = struct.unpack("<I", struct.pack("<f", nearest))[0] + 1
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def scale_fault(value: float) -> str | None:
    """Why a value is no KV scale, as the end of a sentence; None where it is one."""
    if not math.isfinite(value):
        return f"is not finite: {value}"
    if value <= 0:
        return f"is not greater than zero: {value:g}"
    if value < SMALLEST_NORMAL:
        return f"is denormal: {value:g}, which a kernel may flush to zero"
    return None
