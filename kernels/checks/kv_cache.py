# ruff: noqa: S101 - a check is an assertion
"""kv_cache_write and kv_cache_gather."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.checks.compare import HALF, generator, normal, poisoned, same_bits
from kernels.reference import fp8, kv_cache

FORMATS: dict[str, tuple[torch.dtype, fp8.Format | None]] = {
    "float16": (HALF, None),
    "fp8_e4m3": (torch.float8_e4m3fn, fp8.E4M3),
    "fp8_e5m2": (torch.float8_e5m2, fp8.E5M2),
}
LAYOUTS = ("NHD", "HND", "page")
# one, powers of two, scales of real checkpoints, a mantissa of all ones (divided instead), the ends of the range
SCALES = (1.0, 0.0078125, 4.0, 0.0231, 0.1337, 1.9999998807907104, 3.1e-6, 700.0, 2.0**-70, 3.0 * 2.0**70)


@dataclass(frozen=True)
class Shape:
    """Tokens written, blocks, tokens a block, heads, and the widths of a key and of a value head."""

    tokens: int
    blocks: int
    block: int
    heads: int
    key: int
    value: int


SHAPES = (
    Shape(1, 2, 16, 1, 256, 256),
    Shape(37, 5, 16, 4, 128, 128),
    Shape(33, 7, 13, 3, 72, 40),
    Shape(200, 17, 16, 2, 65, 33),
    Shape(129, 3, 800, 1, 256, 256),
)


def every_code(device: str, name: str) -> None:
    """All 256 codes read back as the definition says."""
    dtype, form = FORMATS[name]
    assert form is not None
    codes = torch.arange(256, dtype=torch.uint8, device=device)
    cache = codes.view(dtype).view(1, 1, 1, 256)
    one = torch.ones(1, device=device)
    key, value = (poisoned((1, 1, 256), HALF, one.device) for _ in range(2))
    _gather(cache, cache, [[0]], [0, 1], key, value, one, one)
    expected = torch.tensor([form.value(code) for code in range(256)], dtype=torch.float64, device=device).half()
    same_bits(key[0, 0], expected, f"every code of {name}")
    same_bits(value[0, 0], expected, f"every code of {name} as a value")


def every_half(device: str, name: str, scale: float) -> None:
    """Every half, NaN and infinities too, is stored as the float64 rounding of its fp32 quotient says."""
    dtype, form = FORMATS[name]
    x = torch.arange(65536, dtype=torch.int32, device=device).to(torch.uint16).view(HALF).view(256, 1, 256)
    scales = torch.tensor([scale], device=device)
    for width in (256, 255):  # in packs of eight, and one by one
        part = x[..., :width]
        cache = poisoned((256, 1, 1, width), torch.uint8 if form else HALF, x.device).view(dtype)
        slots = torch.arange(256, device=device)
        torch.ops.volta.kv_cache_write(part, part, cache, cache.clone(), slots, scales, scales)
        stored = cache[:, 0] if form is None else cache.view(torch.uint8)[:, 0]
        same_bits(stored, kv_cache.encode(part, scale, form), f"every half as {name}, scale {scale}")


def make_cache(shape: Shape, width: int, name: str, layout: str, device: torch.device) -> Tensor:
    """A poisoned cache [blocks, block, heads, width] in a physical layout: NHD, HND, or NHD inside a wider page."""
    dtype, form = FORMATS[name]
    storage = torch.uint8 if form else HALF
    if layout == "HND":
        cache = poisoned((shape.blocks, shape.heads, shape.block, width), storage, device).transpose(1, 2)
    elif layout == "NHD":
        cache = poisoned((shape.blocks, shape.block, shape.heads, width), storage, device)
    else:
        page = poisoned((shape.blocks, shape.block, shape.heads, 2 * width + 24), storage, device)
        cache = page[..., 16 : 16 + width]
    return cache.view(dtype)


def bytes_of(cache: Tensor) -> Tensor:
    """The numbers of a cache in float16, the codes of any other."""
    return cache if cache.dtype == HALF else cache.view(torch.uint8)


def round_trip(device: str, name: str, layout: str, shape: Shape, seed: int) -> None:
    """Write to shuffled slots, some of them skipped; then gather three sequences; both bit for bit."""
    g = generator(device, seed)
    form = FORMATS[name][1]
    # a projection's slice: heads are strided, and one row more than there are slots
    rows = shape.tokens + 1
    wide = normal((rows, shape.heads * (shape.key + shape.value)), HALF, g, 40.0)
    key = wide[:, : shape.heads * shape.key].unflatten(1, (shape.heads, shape.key))
    value = wide[:, shape.heads * shape.key :].unflatten(1, (shape.heads, shape.value))
    caches = [make_cache(shape, width, name, layout, g.device) for width in (shape.key, shape.value)]
    total = shape.blocks * shape.block
    slots = torch.randperm(total, generator=g, device=g.device)[: shape.tokens]
    slots = torch.cat((slots, slots.new_full((max(0, shape.tokens - total),), -1)))
    slots[shape.tokens // 3 :: 5] = -1
    slots[shape.tokens // 2 :: 11] = total
    k_scale, v_scale = (torch.rand(1, generator=g, device=g.device) * 0.3 + 0.01 for _ in range(2))
    expected = [
        kv_cache.write(x, bytes_of(cache), slots, scale.item(), form)
        for x, cache, scale in zip((key, value), caches, (k_scale, v_scale), strict=True)
    ]
    torch.ops.volta.kv_cache_write(key, value, *caches, slots, k_scale, v_scale)
    for cache, wanted in zip(caches, expected, strict=True):
        same_bits(bytes_of(cache), wanted, f"{name} {layout} {shape} after writing")
    _check_gather(g, shape, caches, (k_scale, v_scale), form)


def _check_gather(
    g: torch.Generator, shape: Shape, caches: list[Tensor], scales: tuple[Tensor, Tensor], form: fp8.Format | None
) -> None:
    device = g.device
    lengths = [shape.block + 1, 0, shape.tokens]
    columns = max(lengths) // shape.block + 2
    table = torch.randint(0, shape.blocks, (3, columns), generator=g, device=device, dtype=torch.int32)
    table[2, 0], table[0, -1] = -1, shape.blocks  # outside the cache: zeros
    starts = torch.tensor([0, lengths[0], lengths[0], sum(lengths)], dtype=torch.int32, device=device)
    first = torch.tensor([3, 0, shape.block - 1], dtype=torch.int32, device=device)
    for offsets in (None, first):
        dense = [poisoned((sum(lengths) + 2, shape.heads, w), HALF, device) for w in (shape.key, shape.value)]
        wanted = [
            kv_cache.gather(bytes_of(cache), table, starts, offsets, into, scale=scale.item(), form=form)
            for cache, into, scale in zip(caches, dense, scales, strict=True)
        ]
        torch.ops.volta.kv_cache_gather(*caches, table, starts, offsets, *dense, *scales)
        for result, expected in zip(dense, wanted, strict=True):
            same_bits(result, expected, f"gather {shape}")


def _gather(
    key_cache: Tensor, value_cache: Tensor, table: list[list[int]], starts: list[int], *outputs_and_scales: Tensor
) -> None:
    device = key_cache.device
    tables = torch.tensor(table, dtype=torch.int32, device=device)
    bounds = torch.tensor(starts, dtype=torch.int32, device=device)
    torch.ops.volta.kv_cache_gather(key_cache, value_cache, tables, bounds, None, *outputs_and_scales)
