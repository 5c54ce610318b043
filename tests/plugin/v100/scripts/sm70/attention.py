"""Attention and its cache: shapes of an 8-head model with 2 KV heads of 128, and of 256 as in hybrids."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import torch

HALF = torch.float16


def cases() -> Iterator[tuple[str, Any]]:
    """A name and what to call."""
    for size in (128, 256):
        for kv in ("float16", "fp8_e5m2", "fp8_e4m3"):
            for tokens, where in ((1, "decode 3D"), (64, "prefill 2D")):
                yield f"{where}, head {size}, cache {kv}", lambda a=(size, kv, tokens): attend(*a)
    yield "decode, head 128, cache of upstream's E4M3 type", lambda: attend(128, "upstream", 1)
    yield "cache float16", write
    yield "float16", merge
    yield "positions of an image's patches", patches
    yield "rotary embedding of an image's patches", rotate
    yield "an image's pixels", normalise


def attend(size: int, kv: str, tokens: int) -> None:
    from vllm.v1.attention.ops.triton_unified_attention import unified_attention
    from vllm.v1.kv_cache_interface import KVQuantMode

    from toolkit.plugin.attention.triton import READ_AS
    from toolkit.plugin.patches import triton_e4m3

    triton_e4m3.apply()
    ours = {"fp8_e5m2": READ_AS[torch.float8_e5m2], "fp8_e4m3": READ_AS[torch.float8_e4m3fn]}
    types = {"float16": HALF, "upstream": torch.float8_e4m3fn, **ours}
    page = torch.zeros(8, 2, 16, 2 * size, dtype=torch.float32).to(types[kv])
    keys, values = page.transpose(1, 2).split(size, -1)
    one = None if kv == "float16" else torch.ones(1)
    parts = {
        "seq_threshold_3D": 64,
        "num_par_softmax_segments": 16,
        "softmax_segm_output": torch.zeros(64, 8, 16, size),
        "softmax_segm_max": torch.zeros(64, 8, 16),
        "softmax_segm_expsum": torch.zeros(64, 8, 16),
    }
    query = torch.zeros(tokens, 8, size, dtype=HALF)
    starts, lengths = torch.tensor([0, tokens], dtype=torch.int32), torch.tensor([64], dtype=torch.int32)
    table = torch.zeros(1, 8, dtype=torch.int32)
    quantized = KVQuantMode.NONE if kv == "float16" else KVQuantMode.FP8_PER_TENSOR
    unified_attention(
        query, keys, values, torch.zeros_like(query), starts, tokens, lengths, 64, 0.1, True, (-1, -1), table, 0,
        None, one, one, kv_quant_mode=quantized, **(parts if tokens == 1 else {}),
    )  # fmt: skip


def write() -> None:
    from vllm.v1.attention.ops.triton_reshape_and_cache_flash import triton_reshape_and_cache_flash

    page = torch.zeros(8, 2, 16, 256, dtype=HALF)
    keys, values = page.transpose(1, 2).split(128, -1)
    fresh, one = torch.zeros(4, 2, 128, dtype=HALF), torch.ones(1)
    triton_reshape_and_cache_flash(fresh, fresh, keys, values, torch.zeros(4, dtype=torch.int64), "auto", one, one)


def merge() -> None:
    from vllm.v1.attention.ops.triton_merge_attn_states import merge_attn_states

    part, lse = torch.zeros(4, 8, 128, dtype=HALF), torch.zeros(8, 4)
    merge_attn_states(torch.zeros_like(part), part, lse, part, lse)


def patches() -> None:
    from vllm.model_executor.models.qwen3_vl import triton_pos_embed_interpolate

    triton_pos_embed_interpolate(torch.zeros(2304, 1152, dtype=HALF), 1, 4, 4, 48, 2, HALF)


def rotate() -> None:
    """Heads of 72, as in Qwen3-VL's encoder, which multimodal Qwen3.5 has too."""
    from vllm.vllm_flash_attn.layers.rotary import apply_rotary_emb

    torch.cuda.device = lambda *_: nullcontext()
    angles = torch.zeros(16, 36, dtype=HALF)
    apply_rotary_emb(torch.zeros(1, 16, 16, 72, dtype=HALF), angles, angles, False)


def normalise() -> None:
    from vllm.model_executor.layers.fusion.mm_input_norm import fused_mm_input_norm_triton

    channel, pixels = torch.ones(3), torch.zeros(16, 3, 512, dtype=torch.uint8)
    fused_mm_input_norm_triton(pixels, torch.zeros(16, 3, 512, dtype=HALF), channel, channel)
