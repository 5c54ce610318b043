"""The two FP8 formats of a KV cache: E4M3FN (bias 7, no infinity) and E5M2 (bias 15), from and to one byte an element.

Formats as in "FP8 Formats for Deep Learning" (arXiv 2209.05433). torch converts E4M3 to float32 one element at a time
on AVX2; shifting the bits into a half and letting the hardware widen that is exact and several times as fast.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Fp8Format:
    """One format."""

    dtype: torch.dtype
    largest: float
    """The largest finite value."""
    halves: Callable[[Tensor], Tensor]
    """Bytes to float16; the value that a byte stands for is this half times `gain`."""
    gain: float

    def encode(self, values: Tensor, scale: float) -> Tensor:
        """Bytes of `values / scale` (uint8, same shape): nearest even, beyond `largest` saturating, NaN kept.

        The quotient is rounded to float32 before it is rounded to FP8.
        """
        return self._stored(values, scale).view(torch.uint8)

    def rounded(self, values: Tensor, scale: float) -> Tensor:
        """The numbers that these bytes stand for, in the type of `values`, which holds each of them exactly."""
        return self._stored(values, scale).to(values.dtype)

    def _stored(self, values: Tensor, scale: float) -> Tensor:
        return values.to(torch.float32).div(scale).clamp_(-self.largest, self.largest).to(self.dtype)

    def decode(self, codes: Tensor) -> Tensor:
        """What uint8 `codes` stand for, divided by `gain`: float32, exact. Callers fold `gain` into a factor."""
        return self.halves(codes).to(torch.float32)


def _e4m3_halves(codes: Tensor) -> Tensor:
    """Sign to bit 15, the other seven bits to 13..7: a half of the value / 256.

    Adding one flips a byte's top bit where the others are all ones. So `flipped` is the sign, except for NaN, and
    against the widened sign it leaves bit 14 set for NaN alone, which makes a half's NaN.
    """
    flipped = codes.add(1).bitwise_and_(0x80)
    bits = codes.view(torch.int8).to(torch.int16).bitwise_xor_(flipped)
    return bits.bitwise_left_shift_(7).view(torch.float16)


def _e5m2_halves(codes: Tensor) -> Tensor:
    """An E5M2 byte is the upper byte of the half with the same value."""
    return codes.to(torch.int16).bitwise_left_shift_(8).view(torch.float16)


E4M3 = Fp8Format(torch.float8_e4m3fn, 448.0, _e4m3_halves, 256.0)
E5M2 = Fp8Format(torch.float8_e5m2, 57344.0, _e5m2_halves, 1.0)


def format_of(kv_cache_dtype: str) -> Fp8Format:
    """The format that vLLM's name of an FP8 KV cache dtype means."""
    return {"fp8": E4M3, "fp8_e4m3": E4M3, "fp8_e5m2": E5M2}[kv_cache_dtype]
