# ruff: noqa: S101 - a check is an assertion
"""Comparing a result with a float64 oracle, and making inputs that are awkward on purpose."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

HALF = torch.float16
FLOAT = torch.float32
_MANTISSA = {HALF: 10, FLOAT: 23}
_SMALLEST = {HALF: -24, FLOAT: -149}


@dataclass(frozen=True)
class Deviation:
    """Distance from the oracle: the worst error as a share of its bound (at most 1), and the share of exact results."""

    worst: float
    exact: float


def ulp(exact: Tensor, dtype: torch.dtype) -> Tensor:
    """Distance of neighbouring numbers of `dtype` at each float64 value."""
    exponent = torch.frexp(exact.double()).exponent - 1 - _MANTISSA[dtype]
    return torch.ldexp(torch.ones_like(exact, dtype=torch.float64), exponent.clamp(min=_SMALLEST[dtype]))


def within(result: Tensor, exact: Tensor, bound: Tensor, what: str) -> Deviation:
    """Check |result - exact| <= bound + half an ulp (the last rounding) everywhere; infinities and NaN must agree."""
    finite = exact.abs() < torch.finfo(result.dtype).max
    assert torch.equal(result.isnan(), exact.isnan()), f"{what}: NaN in the wrong places"
    limit = bound + 0.5 * ulp(exact, result.dtype)
    error = torch.where(finite, (result.double() - exact).abs(), 0.0)
    share = (error / limit).max().item() if error.numel() else 0.0
    assert share <= 1.0, f"{what}: error is {share:.3g} of its bound"
    rounded = exact.to(result.dtype)
    return Deviation(share, (rounded == result).double().mean().item() if error.numel() else 1.0)


def same_bits(result: Tensor, expected: Tensor, what: str) -> None:
    """Check bitwise equality (NaN payloads aside, for floating types)."""
    assert result.dtype == expected.dtype, f"{what}: {result.dtype} is not {expected.dtype}"
    if result.dtype.is_floating_point:
        assert torch.equal(result.isnan(), expected.isnan()), f"{what}: NaN in the wrong places"
        keep = ~expected.isnan()
        result, expected = result[keep], expected[keep]
        assert torch.equal(torch.signbit(result), torch.signbit(expected)), f"{what}: signs differ"
    different = int((result != expected).sum())
    assert different == 0, f"{what}: {different} of {expected.numel()} elements differ"


def normal(shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator, scale: float = 1.0) -> Tensor:
    """Normal numbers on the generator's device."""
    return (torch.randn(shape, generator=generator, device=generator.device) * scale).to(dtype)


def misaligned(x: Tensor, by: int = 1) -> Tensor:
    """The same values at an address that is `by` elements past an aligned one."""
    room = torch.empty(x.numel() + by, dtype=x.dtype, device=x.device)
    return room[by:].view(x.shape).copy_(x)


def poisoned(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """A tensor full of NaN (0xff bytes for integers): whatever the operator leaves alone shows."""
    if dtype.is_floating_point:
        return torch.full(shape, float("nan"), dtype=torch.float32, device=device).to(dtype)
    return torch.full(shape, 255, dtype=dtype, device=device)


def generator(device: str, seed: int) -> torch.Generator:
    """A seeded generator on a device."""
    return torch.Generator(device=device).manual_seed(seed)
