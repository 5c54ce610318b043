# ruff: noqa: S101 - a check is an assertion
"""rms_norm and fused_add_rms_norm."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.checks.compare import Deviation, generator, misaligned, normal, poisoned, same_bits, within
from kernels.reference import norm

# rows x columns: one element, parts of a warp, a warp's limit, odd sizes, Qwen's width, more than registers hold
SHAPES = (
    (1, 1),
    (3, 8),
    (5, 63),
    (257, 128),
    (33, 256),
    (7, 1024),
    (5, 1025),
    (9, 1032),
    (17, 5120),
    (3, 8191),
    (2, 40000),
)
EPSILON = 1e-6


def rms_norm(
    device: str, dtype: torch.dtype, shape: tuple[int, int], *, weighted: bool, shift: int, seed: int
) -> Deviation:
    """Fresh inputs, a poisoned result, `shift` elements off alignment."""
    g = generator(device, seed)
    x = misaligned(normal(shape, dtype, g, 3.0), shift)
    weight = normal(shape[1:], dtype, g) if weighted else None
    result = misaligned(poisoned(shape, dtype, g.device), shift)
    torch.ops.volta.rms_norm(result, x, weight, EPSILON)
    exact = norm.rms_norm(x, weight, EPSILON)
    return within(result, exact, exact.abs() * 2.0**-18, f"rms_norm {dtype} {shape}")


def fused_add_rms_norm(
    device: str, dtype: torch.dtype, shape: tuple[int, int], *, weighted: bool, shift: int, seed: int
) -> Deviation:
    """In place on both; the residual must be the correctly rounded sum, bit for bit."""
    g = generator(device, seed)
    x, residual = misaligned(normal(shape, dtype, g), shift), misaligned(normal(shape, dtype, g, 5.0), shift)
    weight = normal(shape[1:], dtype, g) if weighted else None
    exact, total = norm.fused_add_rms_norm(x, residual, weight, EPSILON)
    torch.ops.volta.fused_add_rms_norm(x, residual, weight, EPSILON)
    same_bits(residual, total, f"fused_add_rms_norm residual {dtype} {shape}")
    return within(x, exact, exact.abs() * 2.0**-18, f"fused_add_rms_norm {dtype} {shape}")


def strided(device: str, dtype: torch.dtype, seed: int) -> None:
    """Heads inside a wider projection, as a QK norm reads and writes them; the elements between stay untouched."""
    g = generator(device, seed)
    wide = normal((19, 3 * 128 + 40), dtype, g)
    before = wide.clone()
    heads = wide[:, 8 : 8 + 3 * 128].unflatten(1, (3, 128))
    weight = normal((128,), dtype, g)
    exact = norm.rms_norm(heads.clone(), weight, EPSILON)
    torch.ops.volta.rms_norm(heads, heads, weight, EPSILON)
    within(heads, exact, exact.abs() * 2.0**-18, "rms_norm in place on strided heads")
    same_bits(wide[:, :8], before[:, :8], "elements before the heads")
    same_bits(wide[:, 8 + 3 * 128 :], before[:, 8 + 3 * 128 :], "elements after the heads")


def batch_invariant(device: str, dtype: torch.dtype, columns: int, seed: int) -> None:
    """A row's result has the same bits alone and in any batch."""
    g = generator(device, seed)
    x, weight = normal((300, columns), dtype, g), normal((columns,), dtype, g)
    whole = torch.empty_like(x)
    torch.ops.volta.rms_norm(whole, x, weight, EPSILON)
    for rows in (1, 2, 7, 64):
        part = torch.empty_like(x[:rows])
        torch.ops.volta.rms_norm(part, x[:rows], weight, EPSILON)
        same_bits(part, whole[:rows], f"{rows} rows of {columns}")


def special_values(device: str) -> None:
    """Zeros stay zeros; a row with NaN or infinity spoils itself alone."""
    x = torch.ones(4, 2048, dtype=torch.float16, device=device)
    x[0] = 0
    x[1, 5] = float("nan")
    x[2, 7] = float("inf")
    result = torch.empty_like(x)
    torch.ops.volta.rms_norm(result, x, None, EPSILON)
    rows: list[Tensor] = list(result)
    assert not rows[0].any(), "zeros must stay zeros"
    assert rows[1].isnan().all(), "NaN spoils its row"
    assert rows[2][7].isnan(), "infinity over infinity is NaN"
    same_bits(rows[3], torch.ones_like(rows[3]), "the row beside them")
