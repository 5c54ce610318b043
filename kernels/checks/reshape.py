"""reshape_and_cache_flash and reshape_and_cache: upstream's signatures, with the format as a string."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.checks import kv_cache
from kernels.checks.compare import HALF, generator, normal, poisoned, same_bits
from kernels.reference import fp8
from kernels.reference import kv_cache as oracle

NAMES: dict[str, tuple[torch.dtype, fp8.Format | None]] = {
    "auto": (HALF, None),
    "float16": (HALF, None),
    "fp8": (torch.uint8, fp8.E4M3),
    "fp8_e4m3": (torch.float8_e4m3fn, fp8.E4M3),
    "fp8_e5m2": (torch.uint8, fp8.E5M2),
}
"""Upstream's kv_cache_dtype, the dtype of a cache tensor that goes with it, and the format."""
RUNS = (8, 16, 4)
"""Elements of a key that are contiguous in the split layout: upstream's for fp16 and for FP8, and an unaligned one."""


def _scales(heads: int, *, per_head: bool, g: torch.Generator) -> list[Tensor]:
    return [torch.rand(heads if per_head else 1, generator=g, device=g.device) * 0.3 + 0.01 for _ in range(2)]


def _slots(shape: kv_cache.Shape, g: torch.Generator) -> Tensor:
    total = shape.blocks * shape.block
    slots = torch.randperm(total, generator=g, device=g.device)[: shape.tokens]
    slots = torch.cat((slots, slots.new_full((max(0, shape.tokens - total),), -1)))
    slots[shape.tokens // 3 :: 5] = -1
    return slots


def flash(device: str, name: str, layout: str, shape: kv_cache.Shape, *, per_head: bool, seed: int) -> None:
    """Caches [blocks, block, heads, width]; one scale, or one for each head; bit for bit."""
    g = generator(device, seed)
    dtype, form = NAMES[name]
    key, value = (normal((shape.tokens + 3, shape.heads, w), HALF, g, 40.0) for w in (shape.key, shape.value))
    plain = "float16" if form is None else "fp8_e4m3"
    caches = [kv_cache.make_cache(shape, w, plain, layout, g.device).view(dtype) for w in (shape.key, shape.value)]
    slots, scales = _slots(shape, g), _scales(shape.heads, per_head=per_head, g=g)
    expected = [
        oracle.write(x, kv_cache.bytes_of(cache), slots, scale.view(-1, 1), form)
        for x, cache, scale in zip((key, value), caches, scales, strict=True)
    ]
    torch.ops.volta.reshape_and_cache_flash(key, value, *caches, slots, name, *scales)
    for cache, wanted in zip(caches, expected, strict=True):
        same_bits(kv_cache.bytes_of(cache), wanted, f"reshape_and_cache_flash {name} {layout} {shape}")


def split(device: str, name: str, run: int, shape: kv_cache.Shape, *, per_head: bool, seed: int) -> None:
    """Keys [blocks, heads, width / run, block, run] and values [blocks, heads, width, block]; bit for bit."""
    g = generator(device, seed)
    dtype, form = NAMES[name]
    width = shape.key // run * run
    key, value = (normal((shape.tokens, shape.heads, width), HALF, g, 40.0) for _ in range(2))
    storage = HALF if form is None else torch.uint8
    keys = poisoned((shape.blocks, shape.heads, width // run, shape.block, run), storage, g.device)
    values = poisoned((shape.blocks, shape.heads, width, shape.block), storage, g.device)
    slots, scales = _slots(shape, g), _scales(shape.heads, per_head=per_head, g=g)
    logical = (oracle.split_keys(keys), oracle.split_values(values))
    expected = [
        oracle.write(x, cache, slots, scale.view(-1, 1), form)
        for x, cache, scale in zip((key, value), logical, scales, strict=True)
    ]
    torch.ops.volta.reshape_and_cache(key, value, keys.view(dtype), values.view(dtype), slots, name, *scales)
    for result, wanted in zip((oracle.split_keys(keys), oracle.split_values(values)), expected, strict=True):
        same_bits(result, wanted, f"reshape_and_cache {name} run {run} {shape}")
