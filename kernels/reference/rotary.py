"""Oracle of kernels/cuda/rotary.cu."""

import torch
from torch import Tensor


def rotate(
    positions: Tensor, heads: Tensor, cache: Tensor, *, neox: bool, offset: int = 0, inverse: bool = False
) -> tuple[Tensor, Tensor]:
    """(rotated heads, magnitude of the products) in float64.

    heads[tokens, heads, head_size]; cache[positions, rot], cosines then sines. The magnitude |x cos| + |y sin| is what
    the error bound is relative to; it is zero for elements that are not rotated.
    """
    rot = cache.size(1)
    cosine, sine = cache[positions].double().unsqueeze(1).chunk(2, dim=-1)
    sine = -sine if inverse else sine
    result, size = heads.double().clone(), torch.zeros_like(heads, dtype=torch.float64)
    if neox:
        first, second = slice(offset, offset + rot // 2), slice(offset + rot // 2, offset + rot)
    else:
        first, second = slice(offset, offset + rot, 2), slice(offset + 1, offset + rot, 2)
    x, y = heads[..., first].double(), heads[..., second].double()
    result[..., first], result[..., second] = x * cosine - y * sine, y * cosine + x * sine
    size[..., first] = (x * cosine).abs() + (y * sine).abs()
    size[..., second] = (y * cosine).abs() + (x * sine).abs()
    return result, size
