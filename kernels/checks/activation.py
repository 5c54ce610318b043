# ruff: noqa: S101 - a check is an assertion
"""The gated activations."""

from __future__ import annotations

import torch

from kernels.checks.compare import Deviation, generator, misaligned, normal, poisoned, ulp, within
from kernels.reference import activation

ACTS = {"silu": activation.silu, "gelu": activation.gelu, "gelu_tanh": activation.gelu_tanh}
SHAPES = ((1, 1), (3, 7), (2, 8), (5, 4352), (129, 2048), (3, 2056), (2, 17408))


def act_and_mul(
    device: str, name: str, dtype: torch.dtype, shape: tuple[int, int], *, shift: int, seed: int
) -> Deviation:
    """Fresh inputs, gates up to about +-20, a poisoned result."""
    g = generator(device, seed)
    x = misaligned(normal((shape[0], 2 * shape[1]), dtype, g, 5.0), shift)
    result = misaligned(poisoned(shape, dtype, g.device), shift)
    getattr(torch.ops.volta, f"{name}_and_mul")(result, x)
    exact, act, up = activation.act_and_mul(ACTS[name], x)
    moved = ulp(act, dtype) + act.abs() * 2.0**-20 + 2.0**-22
    return within(result, exact, up.abs() * moved + ulp(exact, dtype), f"{name}_and_mul {dtype} {shape}")


def strided(device: str, seed: int) -> None:
    """Rows of a wider tensor in, rows of a wider tensor out, three dimensions."""
    g = generator(device, seed)
    wide = normal((3, 5, 200), torch.float16, g)
    x = wide[..., 8:136]
    out = poisoned((3, 5, 100), torch.float16, g.device)
    torch.ops.volta.silu_and_mul(out[..., 16:80], x)
    exact, act, up = activation.act_and_mul(activation.silu, x)
    within(out[..., 16:80], exact, up.abs() * ulp(act, x.dtype) * 1.01 + ulp(exact, x.dtype), "silu_and_mul strided")
    assert out[..., :16].isnan().all(), "elements before the rows must stay untouched"
    assert out[..., 80:].isnan().all(), "elements after the rows must stay untouched"


def every_half(device: str) -> Deviation:
    """Every finite half through silu, times one: the oracle's rounding or its neighbour."""
    gate = torch.arange(65536, dtype=torch.int32, device=device).to(torch.uint16).view(torch.float16)
    gate = gate[gate.isfinite()]
    x = torch.stack((gate, torch.ones_like(gate)), dim=1).contiguous()
    result = torch.empty_like(gate).unsqueeze(1)
    torch.ops.volta.silu_and_mul(result, x)
    exact = activation.silu(gate.double())
    return within(result[:, 0], exact, exact.abs() * 2.0**-20 + 2.0**-40, "silu of every half")
