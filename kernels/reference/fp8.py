"""The two 8-bit formats by their definition: the value of each code from its bits, and rounding by search.

Independent of torch's float8 types and of kernels/common/fp8.h.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class Format:
    """An 8-bit float: mantissa bits, exponent bias, and the magnitudes from `special` on that are no finite numbers."""

    name: str
    mantissa: int
    bias: int
    special: int

    def value(self, code: int) -> float:
        """What a code stands for, from the definition, in exact arithmetic."""
        sign, magnitude = (-1.0 if code & 0x80 else 1.0), code & 0x7F
        if magnitude >= self.special:
            infinite = self.name == "e5m2" and magnitude == self.special
            return sign * math.inf if infinite else math.nan
        exponent, fraction = magnitude >> self.mantissa, magnitude & ((1 << self.mantissa) - 1)
        if exponent == 0:
            return sign * float(Fraction(fraction, 1 << self.mantissa) * Fraction(2) ** (1 - self.bias))
        return sign * float((1 + Fraction(fraction, 1 << self.mantissa)) * Fraction(2) ** (exponent - self.bias))

    @cached_property
    def magnitudes(self) -> Tensor:
        """Values of the finite codes 0, 1, 2, ... in float64, ascending."""
        return self.values[: self.special]

    @cached_property
    def values(self) -> Tensor:
        """Values of all 256 codes in float64."""
        return torch.tensor([self.value(code) for code in range(256)], dtype=torch.float64)

    def encode(self, x: Tensor) -> Tensor:
        """Codes of float64 numbers: nearest, ties to the even code, saturating, NaN to sign | 0x7f; uint8."""
        table = self.magnitudes.to(x.device)
        magnitude = x.abs().clamp(max=table[-1])
        above = torch.searchsorted(table, magnitude.contiguous()).clamp(max=len(table) - 1)
        below = (above - 1).clamp(min=0)
        up, down = table[above] - magnitude, magnitude - table[below]
        even = torch.where(above % 2 == 0, above, below)
        code = torch.where(up < down, above, torch.where(down < up, below, even))
        code = torch.where(magnitude == table[above], above, code)
        code = torch.where(x.isnan(), 0x7F, code)
        return (code + 0x80 * torch.signbit(x)).to(torch.uint8)


E4M3 = Format("e4m3", mantissa=3, bias=7, special=0x7F)
E5M2 = Format("e5m2", mantissa=2, bias=15, special=0x7C)
