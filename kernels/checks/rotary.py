# ruff: noqa: S101 - a check is an assertion
"""rotary_embedding."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kernels.checks.compare import FLOAT, HALF, Deviation, generator, normal, same_bits, within
from kernels.reference import rotary


@dataclass(frozen=True)
class Shape:
    """Tokens, query and key heads, head size, rotated width and where in the head it starts."""

    tokens: int
    query: int
    key: int
    head: int
    rot: int
    offset: int = 0


SHAPES = (
    Shape(1, 6, 1, 256, 64),  # a rank of the 27B: partial rotation
    Shape(37, 24, 4, 128, 128),
    Shape(5, 3, 1, 80, 36),
    Shape(3, 2, 2, 64, 16, offset=40),
    Shape(513, 1, 1, 64, 64),
    Shape(2, 9, 3, 66, 2, offset=3),
)
TYPES = ((HALF, HALF), (HALF, FLOAT), (FLOAT, FLOAT))


def cos_sin(positions: int, rot: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    """The usual cache: cosines, then sines, for base 10,000."""
    rates = 10000.0 ** (-torch.arange(0, rot, 2, dtype=torch.float64) / rot)
    angles = torch.arange(positions, dtype=torch.float64).unsqueeze(1) * rates
    return torch.cat((angles.cos(), angles.sin()), dim=1).to(dtype).to(device)


def rotate(
    device: str,
    types: tuple[torch.dtype, torch.dtype],
    shape: Shape,
    *,
    neox: bool,
    inverse: bool,
    split: bool,
    seed: int,
) -> Deviation:
    """Query and key as slices of one projection, in place; what is not rotated keeps its bits."""
    g = generator(device, seed)
    dtype, cache_dtype = types
    cache = cos_sin(1000, shape.rot, cache_dtype, device)
    positions = torch.randint(0, 1000, (shape.tokens,), generator=g, device=g.device)
    width = (shape.query + shape.key) * shape.head
    wide = normal((shape.tokens, width + 8), dtype, g)
    before = wide.clone()
    query, key = wide[:, : shape.query * shape.head], wide[:, shape.query * shape.head : width]
    views = [part.unflatten(1, (-1, shape.head)) for part in (query, key)] if split else [query, key]
    torch.ops.volta.rotary_embedding(positions, *views, shape.head, cache, neox, shape.offset, inverse)
    heads = before[:, :width].unflatten(1, (-1, shape.head))
    exact, size = rotary.rotate(positions, heads, cache, neox=neox, offset=shape.offset, inverse=inverse)
    result = wide[:, :width].unflatten(1, (-1, shape.head))
    same_bits(wide[:, width:], before[:, width:], "elements after the heads")
    same_bits(result[size == 0], exact[size == 0].to(dtype), "elements that are not rotated")
    return within(result, exact, size * 2.0**-22, f"rotary_embedding {types} {shape}")


def outside(device: str) -> None:
    """A position outside the cache gives NaN in that token alone; no key; a second leading dimension."""
    cache = cos_sin(10, 8, HALF, device)
    query = torch.ones(2, 2, 16, dtype=HALF, device=device)
    positions = torch.tensor([[1, 10], [-1, 9]], device=device)
    torch.ops.volta.rotary_embedding(positions, query, None, 16, cache, True)
    spoiled = query[..., :8].isnan().all(-1)
    assert spoiled.tolist() == [[False, True], [True, False]], "positions 10 and -1 are outside"
    assert (query[..., 8:] == 1).all(), "elements that are not rotated stay"


def undone(device: str, seed: int) -> None:
    """The inverse rotation takes the rotation back, to two roundings."""
    g = generator(device, seed)
    cache = cos_sin(100, 64, FLOAT, device)
    query = normal((50, 4 * 64), FLOAT, g)
    before = query.clone()
    positions = torch.randint(0, 100, (50,), generator=g, device=g.device)
    torch.ops.volta.rotary_embedding(positions, query, None, 64, cache, True, 0, False)
    torch.ops.volta.rotary_embedding(positions, query, None, 64, cache, True, 0, True)
    assert (query - before).abs().max().item() < 1e-5, "rotating there and back"
