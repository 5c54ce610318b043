"""Mixtures of experts without quantization."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

HALF = torch.float16


def cases() -> Iterator[tuple[str, Any]]:
    """A name and what to call."""
    for tokens in (1, 64, 512):
        yield f"float16, {tokens} tokens", lambda n=tokens: multiply(n)


def multiply(tokens: int) -> None:
    import triton.language as tl
    from vllm.model_executor.layers.fused_moe.fused_moe import get_default_config, invoke_fused_moe_triton_kernel

    experts, hidden, width, chosen = 8, 1024, 512, 2
    config = get_default_config(tokens, experts, width, hidden, chosen, None, None)
    padded = tokens * chosen + experts * config["BLOCK_SIZE_M"]
    rows = torch.zeros(tokens, hidden, dtype=HALF)
    weights = torch.zeros(experts, width, hidden, dtype=HALF)
    out = torch.zeros(tokens, chosen, width, dtype=HALF)
    order = torch.zeros(padded, dtype=torch.int32)
    invoke_fused_moe_triton_kernel(
        rows, weights, out, None, None, None, order, order, torch.tensor([padded], dtype=torch.int32), False, chosen,
        config, tl.float16, False, False, False, False, False,
    )  # fmt: skip
