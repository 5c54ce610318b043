"""The paged cache of one layer: where a token's key and value lie, writing them, and gathering a sequence's.

vLLM hands a layer uint8 [blocks, kv_heads, block_tokens, 2 * head_size]. As upstream's CPU attention does, a head's
part of a block is read as all its keys, then all its values. A slot is block * block_tokens + position in the block.
"""

from __future__ import annotations

from torch import Tensor

KEYS, VALUES = 0, 1


def pages_of(kv_cache: Tensor) -> Tensor:
    """A layer's cache as [blocks, kv_heads, KEYS or VALUES, block_tokens, head_size], sharing its memory."""
    blocks, heads, tokens, width = kv_cache.shape
    return kv_cache.view(blocks, heads, 2, tokens, width // 2)


def write(pages: Tensor, keys: Tensor, values: Tensor, slots: Tensor) -> None:
    """Store uint8 keys and values [tokens, kv_heads, head_size] at int64 `slots` [tokens]; slot -1 is padding."""
    tokens = min(len(keys), len(slots))
    slots, keys, values = slots[:tokens], keys[:tokens], values[:tokens]
    real = slots >= 0
    if not real.all():
        slots, keys, values = slots[real], keys[real], values[real]
    block_tokens = pages.shape[3]
    blocks, offsets = slots.div(block_tokens, rounding_mode="floor"), slots.remainder(block_tokens)
    pages[blocks, :, KEYS, offsets] = keys
    pages[blocks, :, VALUES, offsets] = values


def gather(pages: Tensor, block_table: Tensor, first: int, last: int) -> Tensor:
    """Codes of a sequence's tokens first..last-1, as [KEYS or VALUES, kv_heads, last - first, head_size].

    Only blocks that hold one of these tokens are read, and nothing of them but these tokens is returned: what other
    table entries point to, and what lies behind a sequence's end, may be anything.
    """
    _, heads, _, block_tokens, head_size = pages.shape
    first_block, end_block = first // block_tokens, -(-last // block_tokens)
    chosen = pages.index_select(0, block_table[first_block:end_block])
    codes = chosen.permute(2, 1, 0, 3, 4).reshape(2, heads, len(chosen) * block_tokens, head_size)
    begin = first - first_block * block_tokens
    return codes[:, :, begin : begin + last - first]
