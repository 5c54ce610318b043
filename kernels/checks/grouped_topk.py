# ruff: noqa: S101 - a check is an assertion
"""grouped_topk."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.checks.compare import FLOAT, HALF, Deviation, generator, normal, same_bits, within
from kernels.reference import topk as oracle

RELATIVE = 64 * 2.0**-24


@dataclass(frozen=True)
class Shape:
    """Rows, experts, groups, groups that win, experts a row."""

    rows: int
    experts: int
    groups: int
    winning: int
    k: int


# DeepSeek-V2 and V3, Kimi and Qwen without groups, groups of one, odd sizes, all that there are, more than a lane keeps
SHAPES = (
    Shape(65, 160, 8, 3, 6),
    Shape(129, 256, 8, 4, 8),
    Shape(17, 384, 1, 1, 8),
    Shape(33, 32, 32, 5, 4),
    Shape(40, 21, 7, 2, 5),
    Shape(9, 64, 4, 4, 64),
    Shape(25, 1536, 12, 7, 33),
)


def grouped_topk(
    device: str, types: tuple[torch.dtype, torch.dtype], shape: Shape, *, sigmoid: bool, renormalise: bool, seed: int
) -> Deviation:
    """Scores on a grid with many ties, in a wider tensor; rows whose order rounding may change are left out."""
    g = generator(device, seed)
    step = 0.25 if sigmoid else 2.0**-8  # given scores and their sums are exact in fp32
    wide = (normal((shape.rows, shape.experts + 3), FLOAT, g, 2.0 if sigmoid else 0.3) / step).round() * step
    scores = wide.to(types[0])[:, 1 : shape.experts + 1]
    bias = (normal((shape.experts,), FLOAT, g, 0.3) * 8).round().to(types[1]) / 8
    numbers = shape.groups, shape.winning, shape.k, renormalise, 2.5, bias, int(sigmoid)
    weights, ids = torch.ops.volta.grouped_topk(scores, *numbers)
    values = torch.sigmoid(scores.double()) if sigmoid else scores.double()
    choices = oracle.choices(values, bias, None, None)
    pairs = oracle.group_pairs(choices, shape.groups)
    ranking = oracle.winning_groups(pairs)
    won = torch.zeros_like(ranking, dtype=torch.bool).scatter_(1, ranking[:, : shape.winning], True)
    inside = won.repeat_interleave(shape.experts // shape.groups, dim=1)
    order = choices.masked_fill(~inside, -torch.inf).sort(dim=-1, descending=True, stable=True).indices[:, : shape.k]
    clear = _clear(choices, pairs, ranking, shape.winning)
    assert clear.double().mean() > 0.8, "too few rows say anything"
    same_bits(ids[clear], order[clear].to(torch.int32), f"grouped_topk {shape}")
    taken = values.gather(1, ids.long())
    exact = taken / (taken.sum(-1, keepdim=True) + 1e-20 if renormalise else 1.0) * 2.5
    spread = taken.abs().sum(-1, keepdim=True) / taken.sum(-1, keepdim=True).abs() if renormalise else 1.0
    return within(weights, exact, exact.abs() * RELATIVE * spread + 2.0**-125, f"grouped_topk {types} {shape}")


def _clear(choices: Tensor, pairs: Tensor, ranking: Tensor, winning: int) -> Tensor:
    """Rows whose choices, and last winning and first losing group, are the same or further apart than rounding."""
    gaps = choices.sort(dim=-1).values.diff(dim=-1)
    clear = ((gaps == 0) | (gaps > 2.0**-19)).all(-1)
    if winning == pairs.size(1):
        return clear
    last, next_one = (pairs.gather(1, ranking[:, w].view(-1, 1, 1).expand(-1, 1, 2)) for w in (winning - 1, winning))
    apart = (last.sum(-1) - next_one.sum(-1)).squeeze(1) > 2.0**-19
    return clear & (apart | (last == next_one).all(-1).squeeze(1))


def special_values(device: str) -> None:
    """NaN and infinite logits, and biases that rule experts out: distinct experts, finite weights."""
    nan, inf = float("nan"), float("inf")
    logits = torch.zeros(4, 8, device=device)
    logits[0], logits[1, :5], logits[2, 3], logits[3] = nan, nan, inf, -inf
    bias = torch.zeros(8, device=device)
    for dtype in (FLOAT, HALF):
        for scoring in (0, 1):
            weights, ids = torch.ops.volta.grouped_topk(logits.to(dtype), 4, 2, 3, True, 1.0, bias, scoring)
            assert weights.isfinite().all(), "a weight that is not finite"
            assert (ids.sort(-1).values.diff(dim=-1) > 0).all(), "an expert twice"
            same_bits(ids[0], torch.tensor([0, 1, 2], dtype=torch.int32, device=device), "a row of NaN")
    bias[:4] = -inf
    _, ids = torch.ops.volta.grouped_topk(torch.zeros(1, 8, device=device), 4, 2, 3, False, 1.0, bias, 1)
    same_bits(ids[0], torch.tensor([4, 5, 6], dtype=torch.int32, device=device), "experts that a bias rules out")
    bias[4] = nan
    _, ids = torch.ops.volta.grouped_topk(torch.zeros(1, 8, device=device), 4, 4, 8, False, 1.0, bias, 1)
    same_bits(ids[0], torch.tensor([5, 6, 7, 0, 1, 2, 3, 4], dtype=torch.int32, device=device), "NaN comes last")
