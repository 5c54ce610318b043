# ruff: noqa: S101 - a check is an assertion
"""gemma_rms_norm: inside its error bound, and bit for bit in the promised order."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.checks.compare import FLOAT, HALF, Deviation, generator, misaligned, normal, poisoned, same_bits, within
from kernels.reference import gemma_norm as oracle

EPSILON = 1e-6
BOUND = 2.0**-18


@dataclass(frozen=True)
class Form:
    """Types of x and the result, of the residual (or none), of the weight, and what is added to the weight."""

    x: torch.dtype
    residual: torch.dtype | None
    weight: torch.dtype
    offset: float


FORMS = (
    Form(HALF, None, HALF, 1.0),
    Form(HALF, HALF, HALF, 1.0),
    Form(HALF, FLOAT, FLOAT, 1.0),
    Form(FLOAT, None, FLOAT, 1.0),
    Form(FLOAT, FLOAT, HALF, 1.0),
    Form(HALF, None, FLOAT, 0.0),  # the plain form
    Form(HALF, HALF, HALF, 0.0),
)
# rows x columns: one element, part of a warp, a head, one warp's limit and past it, Qwen's width, the tuned length and
# its neighbours, more than registers hold
SHAPES = ((1, 1), (3, 8), (9, 63), (21, 256), (5, 257), (3, 5120), (7, 8192), (2, 8191), (2, 8200), (2, 40000))


def norm(device: str, form: Form, shape: tuple[int, int], *, shift: int, seed: int) -> Deviation:
    """Rows of very different sizes, one of zeros; a poisoned result; all `shift` elements off alignment."""
    x, residual, weight = _inputs(device, form, shape, seed)
    z, total = oracle.added(x.cpu(), None if residual is None else residual.cpu())
    ordered = oracle.ordered(z, weight.cpu(), EPSILON, form.offset).to(form.x).to(device)
    result = misaligned(poisoned(shape, form.x, x.device), shift)
    stored = None if residual is None else misaligned(residual, shift)
    torch.ops.volta.gemma_rms_norm(
        result, misaligned(x, shift), stored, misaligned(weight, shift), EPSILON, form.offset
    )
    what = f"gemma_rms_norm {form} {shape}"
    same_bits(result, ordered, f"{what}: the promised order")
    if stored is not None and total is not None:
        same_bits(stored, total.to(device), f"{what}: residual")
    exact = oracle.exact(z, weight.cpu(), EPSILON, form.offset).to(device)
    return within(result, exact, exact.abs() * BOUND, what)


def _inputs(device: str, form: Form, shape: tuple[int, int], seed: int) -> tuple[Tensor, Tensor | None, Tensor]:
    g = generator(device, seed)
    sizes = torch.exp2(torch.randint(-12, 9, (shape[0], 1), generator=g, device=g.device).float())
    x = (normal(shape, FLOAT, g) * sizes).to(form.x)
    residual = None if form.residual is None else (normal(shape, FLOAT, g) * sizes).to(form.residual)
    if shape[0] > 2:
        x[1] = 0
    return x, residual, normal(shape[1:], form.weight, g)


def same_in_any_batch(device: str, form: Form, columns: int, seed: int) -> None:
    """A row has the same bits alone, in any batch, at any alignment, at any row stride, and in place."""
    x, residual, weight = _inputs(device, form, (300, columns), seed)
    whole, totals = _run(form, x, residual, weight)
    for rows in (1, 2, 7, 64):
        part = None if residual is None else residual[-rows:]
        for move in (misaligned, _spread):
            result, total = _run(form, move(x[-rows:]), None if part is None else move(part), misaligned(weight, 3))
            same_bits(result, whole[-rows:], f"{rows} rows of {columns}")
            if total is not None and totals is not None:
                same_bits(total, totals[-rows:], f"residual of {rows} rows of {columns}")
    torch.ops.volta.gemma_rms_norm(x, x, residual, weight, EPSILON, form.offset)
    same_bits(x, whole, f"in place, {columns}")


def _spread(x: Tensor) -> Tensor:
    """The same values in rows that lie further apart."""
    wide = torch.zeros(x.size(0), x.size(1) + 24, dtype=x.dtype, device=x.device)
    wide[:, 8:-16] = x
    return wide[:, 8:-16]


def _run(form: Form, x: Tensor, residual: Tensor | None, weight: Tensor) -> tuple[Tensor, Tensor | None]:
    result, total = poisoned(tuple(x.shape), form.x, x.device), residual
    if residual is not None:
        total = _spread(residual) if residual.stride(0) != residual.size(1) else misaligned(residual, 0)
    torch.ops.volta.gemma_rms_norm(result, x, total, weight, EPSILON, form.offset)
    return result, total


def plain_form(device: str, seed: int) -> None:
    """With offset 0 it is rms_norm: the same formula, another order; each the float64 rounding or its neighbour."""
    g = generator(device, seed)
    x, weight = normal((33, 8192), HALF, g, 3.0), normal((8192,), HALF, g)
    fixed, usual = torch.empty_like(x), torch.empty_like(x)
    torch.ops.volta.gemma_rms_norm(fixed, x, None, weight, EPSILON, 0.0)
    torch.ops.volta.rms_norm(usual, x, weight, EPSILON)
    exact = oracle.exact(x.float(), weight, EPSILON, 0.0)
    within(fixed, exact, exact.abs() * BOUND, "gemma_rms_norm in the plain form")
    within(usual, exact, exact.abs() * BOUND, "rms_norm is the plain form")


def unrounded_sum(device: str) -> None:
    """The sum is normalised as it is, not as the fp16 residual keeps it: 2048 + 1 + 1 is 2050 there, but 2049 here."""
    x = torch.ones(1, 8, dtype=HALF, device=device)
    residual = torch.full((1, 8), 2048.0, dtype=HALF, device=device)
    residual[0, 0] = 0.0
    result, weight = torch.empty_like(x), torch.zeros(8, device=device)
    torch.ops.volta.gemma_rms_norm(result, x, residual, weight, 0.0)
    assert residual[0].tolist() == [1.0] + [2048.0] * 7, "2049 is stored as 2048"
    z = torch.tensor([1.0] + [2049.0] * 7, dtype=torch.float64)
    expected = (z / z.square().mean().sqrt()).half()
    same_bits(result[0].cpu(), expected, "the unrounded sum")


def special_values(device: str) -> None:
    """Zeros stay zeros; a row with NaN or infinity spoils itself alone; squares beyond float32 give zeros."""
    x = torch.ones(5, 8192, device=device)
    x[0], x[1, 5], x[2, 7], x[3] = 0, float("nan"), float("inf"), 2.0**65
    result = torch.empty_like(x)
    torch.ops.volta.gemma_rms_norm(result, x, None, torch.zeros(8192, device=device), 0.0, 1.0)
    assert result[0].isnan().all(), "0 / 0 without epsilon"
    assert result[1].isnan().all(), "NaN spoils its row"
    assert result[2][7].isnan(), "infinity over infinity is NaN"
    assert not result[3].any(), "squares overflow to infinity"
    same_bits(result[4], torch.ones_like(result[4]), "the row beside them")
