"""The two FP8 formats from their definitions, in float64 and without torch: what the tests compare with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Reference:
    """A format by its field widths and bias."""

    exponent_bits: int
    mantissa_bits: int
    bias: int
    has_infinity: bool

    def value(self, code: int) -> float:
        """What a byte stands for."""
        sign = -1.0 if code & 0x80 else 1.0
        exponent = (code & 0x7F) >> self.mantissa_bits
        mantissa = code & ((1 << self.mantissa_bits) - 1)
        full = (1 << self.mantissa_bits) - 1
        if exponent == (1 << self.exponent_bits) - 1:
            if self.has_infinity:
                return sign * np.inf if mantissa == 0 else np.nan
            if mantissa == full:
                return np.nan
        if exponent == 0:
            return sign * mantissa * 2.0 ** (1 - self.bias - self.mantissa_bits)
        return sign * (1 + mantissa / (full + 1)) * 2.0 ** (exponent - self.bias)

    def table(self) -> np.ndarray:
        """All 256 values, float64."""
        return np.array([self.value(code) for code in range(256)])

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Codes of float64 values: nearest, ties to the even code, beyond the largest saturating, NaN to 0x7F."""
        finite = np.array([self.value(code) for code in range(128) if np.isfinite(self.value(code))])
        magnitude = np.minimum(np.abs(values), finite[-1])
        above = np.clip(np.searchsorted(finite, magnitude), 1, len(finite) - 1)
        below = above - 1
        to_below, to_above = magnitude - finite[below], finite[above] - magnitude
        tie = np.where(below % 2 == 0, below, above)
        code = np.where(to_below < to_above, below, np.where(to_above < to_below, above, tie))
        code = np.where(np.signbit(values), code | 0x80, code)
        return np.where(np.isnan(values), 0x7F, code).astype(np.uint8)


E4M3 = Reference(exponent_bits=4, mantissa_bits=3, bias=7, has_infinity=False)
E5M2 = Reference(exponent_bits=5, mantissa_bits=2, bias=15, has_infinity=True)
