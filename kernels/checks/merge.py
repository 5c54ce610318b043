# ruff: noqa: S101 - a check is an assertion
"""merge_attention and merge_attn_states."""

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


def gate_roundings(device: str) -> None:
    """Every half as a gate of parts that need rounding: merge, round; sigmoid, round; multiply, round. No other order.

    Exact wherever sigmoid is not within its error of the border between two halves.
    """
    gates = torch.arange(65536, dtype=torch.int32, device=device).to(torch.uint16).view(HALF)
    gates = gates[~gates.isnan()].view(1, -1, 1)
    exact = torch.sigmoid(gates.double())
    sure = (exact * (1 + 2.0**-20)).to(HALF) == (exact * (1 - 2.0**-20)).to(HALF)
    told_apart = 0
    for value in (1 + 0.4 * 2.0**-10, 1 + 0.6 * 2.0**-10, -1.3337, 0.00331, 777.7):
        parts = torch.full((1, *gates.shape), value, device=device)
        lse, result = torch.zeros(1, *gates.shape[:2], device=device), torch.empty_like(gates)
        torch.ops.volta.merge_attention(result, None, parts, lse, True, gates)
        wanted = oracle.gated(parts[0].to(HALF), gates).to(HALF)
        assert torch.equal(result[sure], wanted[sure]), f"gates of {value}"
        for other in (
            parts[0].double() * exact,
            parts[0].to(HALF).double() * exact,
            parts[0].double() * exact.to(HALF),
        ):
            told_apart += int((other.to(HALF) != wanted)[sure].sum() > 100)
    assert told_apart >= 12, "the check tells the four orders of rounding apart"


def closed_gates(device: str) -> None:
    """In fp32 sigmoid is right down to the smallest number, and 0 and 1 at the infinities."""
    gates = torch.tensor([-103.0, -90.0, -88.7, -87.0, -20.0, float("-inf"), float("inf")], device=device).view(
        1, 1, -1
    )
    parts, result = torch.full((1, *gates.shape), 2.0**100, device=device), torch.empty_like(gates)
    torch.ops.volta.merge_attention(result, None, parts, torch.zeros(1, 1, 1, device=device), False, gates)
    exact = oracle.gated(parts[0], gates)
    within(result, exact, exact * 2.0**-20 + 2.0**-49, "merge_attention with closed gates")


def extreme_lse(device: str, *, base2: bool) -> None:
    """Every triple of log-sum-exps out of: the infinities, NaN, zero, and very large and very small numbers."""
    values = torch.tensor([float("-inf"), float("nan"), float("inf"), 0.0, -0.0, 3e38, -3e38, 1e30, 64.0, -64.0, 1e-40])
    lse = torch.cartesian_prod(values, values, values).T.contiguous().to(device).unsqueeze(-1)
    parts = torch.tensor([1.0, -2.0, 0.5], device=device).view(3, 1, 1, 1).expand(3, lse.size(1), 1, 8).clone()
    empty = lse.isnan() | lse.isinf()
    parts[empty] = float("nan")
    result = poisoned((lse.size(1), 1, 8), FLOAT, lse.device)
    out_lse = poisoned((lse.size(1), 1), FLOAT, lse.device)
    torch.ops.volta.merge_attention(result, out_lse, parts, lse, base2)
    exact, exact_lse = oracle.merge(parts, lse, base2=base2)
    within(result, exact, torch.full_like(exact, 2 * 2.0**-20), f"merge_attention of extremes, base 2 is {base2}")
    _check_lse(out_lse, exact_lse)
    assert not result[empty.all(0)].any(), "zeros where all are empty"


def states(device: str, dtype: torch.dtype, shape: Shape, *, context: int | None, seed: int) -> Deviation:
    """Upstream's signature: two parts of `shape`, log-sum-exps [heads, tokens], infinities, empty parts full of NaN."""
    g = generator(device, seed)
    sizes = (shape.tokens, shape.heads, shape.width)
    prefix, suffix = (normal((*sizes[:2], shape.width + 8), dtype, g)[..., : shape.width] for _ in range(2))
    lses = [normal(sizes[:2], FLOAT, g, 6.0).T, normal(sizes[1::-1], FLOAT, g, 6.0)]  # either order in memory
    for part, lse in zip((prefix, suffix), lses, strict=True):
        empty = torch.rand(lse.shape, generator=g, device=g.device) < 0.2
        empty[0, 0] = False
        lse[empty] = float("-inf") if seed % 2 else float("inf")
        part[empty.T] = float("nan")
    for lse in lses:
        lse[-1, 0] = float("inf")  # both empty: the prefix's output is what counts
    prefix[0, -1] = 3.0
    result = misaligned(poisoned(sizes, dtype, g.device), 0 if seed % 2 else 3)
    out_lse = poisoned((shape.heads, shape.tokens), FLOAT, g.device)
    torch.ops.volta.merge_attn_states(result, out_lse, prefix, lses[0], suffix, lses[1], context)
    merged = shape.tokens if context is None else context
    exact, exact_lse = oracle.states(prefix, lses[0], suffix, lses[1], merged)
    both = torch.fmax(*(torch.where(lse.isinf(), float("-inf"), lse) for lse in lses))[:, :merged] == float("-inf")
    assert torch.equal(out_lse[:, merged:], lses[1][:, merged:]), "tokens without context keep the suffix's log-sum-exp"
    _check_lse(out_lse[:, :merged], exact_lse[:, :merged])
    copied = both.T if both.numel() else both.T.bool()
    assert torch.equal(result[:merged][copied].nan_to_num(7), prefix[:merged][copied].nan_to_num(7)), "the prefix's"
    assert torch.equal(result[merged:].nan_to_num(7), suffix[merged:].nan_to_num(7)), "the suffix's"
    largest = torch.stack((prefix, suffix)).nan_to_num(0).double().abs().amax((0, -1)).unsqueeze(-1)
    return within(result, exact, (largest * 2.0**-20).expand_as(exact), f"merge_attn_states {dtype} {shape} {context}")


def states_with_nan(device: str) -> None:
    """A log-sum-exp of NaN spreads, as upstream's does, so that a fault elsewhere is not hidden."""
    one = torch.ones(1, 1, 8, dtype=HALF, device=device)
    result, lse = torch.empty_like(one), torch.empty(1, 1, device=device)
    nan, zero = torch.full((1, 1), float("nan"), device=device), torch.zeros(1, 1, device=device)
    torch.ops.volta.merge_attn_states(result, lse, one, nan, one, zero, None)
    assert result.isnan().all(), "the output"
    assert lse.isnan().all(), "the log-sum-exp"
    torch.ops.volta.merge_attn_states(result, None, one, zero, one, zero, None)
    assert torch.equal(result, one), "without output_lse"


def _check_lse(result: torch.Tensor, exact: torch.Tensor) -> None:
    if not result.numel():
        return
    empty = exact == float("-inf")
    assert torch.equal(result == float("-inf"), empty), "empty rows have a log-sum-exp of -infinity"
    error = torch.where(empty, 0.0, (result.double() - exact).abs() / (1 + exact.abs()))
    assert error.max().item() <= 2.0**-21, "log-sum-exp"
