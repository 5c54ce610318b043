"""Oracle of kernels/cuda/kv_cache.cu. Caches are [blocks, block_size, heads, width] of fp16 or of uint8 codes."""

import torch
from torch import Tensor

from kernels.reference.fp8 import Format


def encode(x: Tensor, scale: float | Tensor, form: Format | None) -> Tensor:
    """What is stored for fp16 numbers: the codes of the fp32 quotient x / scale, or x itself without a format."""
    if form is None:
        return x.clone()
    return form.encode((x.float() / torch.as_tensor(scale, dtype=torch.float32, device=x.device)).double())


def decode(codes: Tensor, scale: float | Tensor, form: Format | None) -> Tensor:
    """What is read back: the fp16 rounding of the fp32 product value * scale, or the number itself without a format."""
    if form is None:
        return codes.clone()
    table = form.values.float().to(codes.device)
    return (table[codes.long()] * torch.as_tensor(scale, dtype=torch.float32, device=codes.device)).half()


def write(x: Tensor, cache: Tensor, slots: Tensor, scale: float | Tensor, form: Format | None) -> Tensor:
    """The cache after writing x[tokens, heads, width] to its slots; slots outside the cache are skipped."""
    result, stored = cache.clone(), encode(x, scale, form)
    for token, slot in enumerate(slots.tolist()):
        if 0 <= slot < cache.size(0) * cache.size(1):
            result[slot // cache.size(1), slot % cache.size(1)] = stored[token]
    return result


def split_keys(cache: Tensor) -> Tensor:
    """Keys in upstream's split layout [blocks, heads, width / x, block, x] as [blocks, block, heads, width], copied."""
    return cache.permute(0, 3, 1, 2, 4).flatten(3)


def split_values(cache: Tensor) -> Tensor:
    """Values in upstream's split layout [blocks, heads, width, block] as [blocks, block, heads, width]."""
    return cache.permute(0, 3, 1, 2)


def gather(
    cache: Tensor,
    table: Tensor,
    starts: Tensor,
    first: Tensor | None,
    into: Tensor,
    *,
    scale: float | Tensor,
    form: Format | None,
) -> Tensor:
    """`into` after gathering: token t of request r comes from position first[r] + t - starts[r] of its blocks."""
    result, read = into.clone(), decode(cache, scale, form)
    bounds = starts.tolist()
    for request in range(table.size(0)):
        for token in range(bounds[request], min(bounds[request + 1], into.size(0))):
            index = token - bounds[request] + (0 if first is None else int(first[request]))
            column, position = divmod(index, cache.size(1))
            block = int(table[request, column]) if column < table.size(1) else -1
            inside = 0 <= block < cache.size(0)
            result[token] = read[block, position] if inside else 0
    return result
