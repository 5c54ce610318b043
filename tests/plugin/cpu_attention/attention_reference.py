"""Attention in float64 from its definition, and how far a float32 computation may be from it.

The bound. Let u = 2^-24, d the head size, n the positions seen, c the scale, and A the largest sum over a pair of
|c q_i k_i|. A float32 dot product of exact factors errs by at most (d + 2) u A, the scale on q adds 2 u A, and taking
the maximum off before the exponential at most 2 u A more: e = (d + 6) u A. A soft cap cannot enlarge it (tanh has slope
<= 1) and adds some ulps of the cap; ALiBi adds 2 u of its largest term. A weight exp(s) / sum exp(s) then errs by the
factor exp(2 e) (1 + (n + 8) u), and the weighted sum of n values by n u more. So an output element is within
    (expm1(2 e) + (2 n + 16) u) * max|v|
of the exact one before it is rounded to the output's type, which adds its half ulp relative to the element.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

U = 2.0**-24
ROUNDING = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}


@dataclass(frozen=True)
class Case:
    """One sequence: query [rows, heads, size], keys and values [positions, kv_heads, size] as float64 numbers."""

    query: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor
    scale: float
    causal: bool = True
    window: int | None = None
    soft_cap: float | None = None
    slopes: torch.Tensor | None = None
    sinks: torch.Tensor | None = None


def attention(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    """The exact output [rows, heads, size], and the bound on a float32 computation's distance from it."""
    rows, heads, size = case.query.shape
    context = len(case.keys)
    group = heads // max(1, case.keys.shape[1])
    query = case.query.double().transpose(0, 1)
    keys = case.keys.double().transpose(0, 1).repeat_interleave(group, 0)
    values = case.values.double().transpose(0, 1).repeat_interleave(group, 0)
    scores = case.scale * query @ keys.transpose(1, 2)
    error = (size + 6) * U * _peak(case.scale * query.abs() @ keys.abs().transpose(1, 2))
    distance = torch.arange(context) - torch.arange(context - rows, context).unsqueeze(1)
    if case.soft_cap is not None:
        scores = case.soft_cap * torch.tanh(scores / case.soft_cap)
        error += 8 * U * case.soft_cap
    if case.slopes is not None:
        bias = case.slopes.double().view(-1, 1, 1) * distance
        scores = scores + bias
        error += 4 * U * _peak(bias.abs())
    scores = scores.masked_fill(_hidden(case, distance), -torch.inf)
    if case.sinks is not None:
        scores = torch.cat((scores, case.sinks.double().view(-1, 1, 1).expand(-1, rows, 1)), -1)
    weights = torch.softmax(scores, -1)[..., :context]
    output = (weights @ values).transpose(0, 1)
    bound = (torch.expm1(torch.tensor(2 * error)) + (2 * context + 16) * U) * _peak(values.abs())
    return output, bound.expand_as(output)


def _hidden(case: Case, distance: torch.Tensor) -> torch.Tensor:
    hidden = distance > 0 if case.causal else torch.zeros_like(distance, dtype=torch.bool)
    if case.window is not None:
        hidden = hidden | (distance.abs() >= case.window)
    return hidden


def _peak(values: torch.Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0


def assert_close(got: torch.Tensor, case: Case) -> None:
    """`got` is within the bound of the exact output, its own type's rounding included."""
    exact, bound = attention(case)
    bound = bound + ROUNDING[got.dtype] * (exact.abs() + bound)
    excess = (got.double() - exact).abs() - bound
    assert not got.isnan().any()
    assert got.numel() == 0 or excess.max() <= 0, f"{excess.max():.3g} over a bound of {bound.max():.3g}"
