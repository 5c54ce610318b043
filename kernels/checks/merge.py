# ruff: noqa: S101 - a check is an assertion
"""merge_attention."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kernels.checks.compare import FLOAT, HALF, Deviation, generator, misaligned, normal, poisoned, ulp, within
from kernels.reference import merge as oracle


@dataclass(frozen=True)
class Shape:
    """Parts, tokens, heads, head size."""

    parts: int
    tokens: int
    heads: int
    width: int


SHAPES = (Shape(2, 1, 6, 256), Shape(2, 37, 12, 256), Shape(8, 5, 3, 128), Shape(3, 129, 1, 65), Shape(1, 2, 2, 8))
TYPES = ((HALF, HALF), (FLOAT, HALF), (FLOAT, FLOAT))


def merge(
    device: str, types: tuple[torch.dtype, torch.dtype], shape: Shape, *, base2: bool, gate: bool, seed: int
) -> Deviation:
    """Some parts empty, some log-sum-exps NaN or +infinity, empty parts full of NaN, one row all empty."""
    g = generator(device, seed)
    part_type, out_type = types
    parts = normal((shape.parts, shape.tokens, shape.heads, shape.width), part_type, g)
    lse = normal((shape.parts, shape.heads, shape.tokens), FLOAT, g, 6.0).transpose(1, 2)  # [H, T] in memory
    empty = torch.rand(lse.shape, generator=g, device=g.device) < 0.2
    lse[empty] = torch.tensor([float("-inf"), float("nan"), float("inf")], device=device)[int(empty.sum()) % 3]
    lse[:, 0, 0], empty[:, 0, 0] = float("-inf"), True
    parts[empty] = float("nan")
    gates = normal((shape.tokens, shape.heads, shape.width), out_type, g, 3.0) if gate else None
    result = misaligned(poisoned((shape.tokens, shape.heads, shape.width), out_type, g.device), 0 if seed % 2 else 3)
    out_lse = poisoned((shape.heads, shape.tokens), FLOAT, g.device).T
    torch.ops.volta.merge_attention(result, out_lse, parts, lse, base2, gates)
    exact, exact_lse = oracle.merge(parts, lse, base2=base2)
    _check_lse(out_lse, exact_lse)
    largest = torch.where(empty.unsqueeze(-1), 0.0, parts.double().abs()).amax((0, -1)).unsqueeze(-1)
    bound = (largest * 2.0**-20).expand_as(exact)
    assert not result[0, 0].any(), "a row that is all empty gives zeros"
    if gates is None:
        return within(result, exact, bound, f"merge_attention {types} {shape}")
    rounded = exact.to(out_type)
    moved = bound + ulp(exact, out_type)  # the merge's rounding may fall on the neighbour, and so may the sigmoid's
    product = oracle.gated(rounded, gates)
    sigmoid = torch.sigmoid(gates.double())
    limit = moved * sigmoid + (exact.abs() + moved) * (ulp(sigmoid, out_type) + sigmoid * 2.0**-20)
    return within(result, product, limit, f"merge_attention gated {types} {shape}")


def _check_lse(result: torch.Tensor, exact: torch.Tensor) -> None:
    empty = exact == float("-inf")
    assert torch.equal(result == float("-inf"), empty), "empty rows have a log-sum-exp of -infinity"
    error = torch.where(empty, 0.0, (result.double() - exact).abs() / (1 + exact.abs()))
    assert error.max().item() <= 2.0**-21, "log-sum-exp"
