"""Adapters of rank 8 on projections without quantization."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from sm70.batch import INT, of

RANK, HIDDEN, WIDTH, TOKENS, SLICES = 8, 1024, 512, 16, 2
HALF = torch.float16


def cases() -> Iterator[tuple[str, Any]]:
    """A name and what to call."""
    from vllm.lora.ops.triton_ops import utils

    utils.async_tensor_h2d = on_the_cpu
    for count in (1, SLICES):
        yield f"into rank {RANK}, {count} at once", lambda n=count: shrink(n)
        yield f"out of rank {RANK}, {count} at once", lambda n=count: expand(n)


def on_the_cpu(values: Any, device: Any, dtype: torch.dtype) -> torch.Tensor:
    """In the place of upstream's copy to a GPU, which pins memory."""
    return torch.tensor(values, dtype=dtype)


def batch() -> tuple[torch.Tensor, ...]:
    """Which token takes which adapter: two adapters' worth of LoRAKernelMeta."""
    flag, active = torch.zeros(1, dtype=torch.bool), torch.ones(1, dtype=INT)
    return of(TOKENS), of(TOKENS), of(2), of(3), of(2), flag, active


def shrink(count: int) -> None:
    from vllm.lora.ops.triton_ops.lora_shrink_op import _lora_shrink

    down = [torch.zeros(1, 1, RANK, HIDDEN, dtype=HALF) for _ in range(count)]
    out = torch.zeros(count, TOKENS, RANK, dtype=torch.float32)
    _lora_shrink(torch.zeros(TOKENS, HIDDEN, dtype=HALF), down, out, *batch(), 1.0)


def expand(count: int) -> None:
    from vllm.lora.ops.triton_ops.lora_expand_op import _lora_expand

    up = [torch.zeros(1, 1, WIDTH, RANK, dtype=HALF) for _ in range(count)]
    rows, out = torch.zeros(count, TOKENS, RANK), torch.zeros(TOKENS, count * WIDTH, dtype=HALF)
    _lora_expand(rows, up, out, *batch(), 0, True)
