"""apply_repetition_penalties_."""

from __future__ import annotations

import torch

from kernels.checks.compare import generator, misaligned, normal, same_bits
from kernels.reference import penalties as oracle

# rows x words: one, odd, a vocabulary, more than one launch's width
SHAPES = ((1, 1), (7, 129), (3, 151936), (2, 1200000))


def penalties(device: str, dtype: torch.dtype, shape: tuple[int, int], *, shift: int, seed: int) -> None:
    """In place, in a wider tensor, with signed zeros, infinities and NaN; bit for bit, and nothing else changes."""
    g = generator(device, seed)
    rows, words = shape
    whole = misaligned(normal((rows, words + 8), dtype, g, 5.0), shift)
    logits = whole[:, :words]
    special = torch.tensor([0.0, -0.0, float("inf"), float("-inf"), float("nan")], dtype=dtype, device=g.device)
    logits[:, ::37] = special[torch.randint(0, 5, logits[:, ::37].shape, generator=g, device=g.device)]
    prompt, output = (torch.rand(shape, generator=g, device=g.device) < share for share in (0.1, 0.02))
    factors = (torch.rand(rows, generator=g, device=g.device) * 2 + 0.25).to(dtype)
    factors[0] = 1.1
    expected = whole.clone()
    expected[:, :words] = oracle.apply(logits, prompt, output, factors)
    torch.ops.volta.apply_repetition_penalties_(logits, misaligned(prompt, shift), misaligned(output, shift), factors)
    same_bits(whole, expected, f"repetition penalties {dtype} {shape}")
