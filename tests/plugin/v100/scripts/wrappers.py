"""vLLM's own wrappers of cache writes, merge and swaps, whose operators are ours here, against plain torch."""

import json

import torch
from vllm import _custom_ops as ops
from vllm.v1.attention.ops.merge_attn_states import _merge_attn_states_torch, merge_attn_states

from toolkit.plugin.operators.define import define_upstream_operators

TOKENS, HEADS, WIDTH, BLOCKS, BLOCK = 5, 3, 16, 4, 8
GENERATOR = torch.Generator().manual_seed(7)
SLOTS = torch.tensor([9, -1, 0, 31, 17])
ONE = torch.ones(1)


def normal(*shape):
    return torch.randn(shape, generator=GENERATOR).half()


def merge():
    """Some tokens without a prefix, and one head that saw nothing in it."""
    prefix, suffix = normal(TOKENS, HEADS, WIDTH), normal(TOKENS, HEADS, WIDTH)
    lse, other = torch.randn(2, HEADS, TOKENS, generator=GENERATOR)
    lse[1, 0] = float("-inf")
    outs, lses = torch.zeros(2, TOKENS, HEADS, WIDTH).half(), torch.zeros(2, HEADS, TOKENS)
    merge_attn_states(outs[0], prefix, lse, suffix, other, lses[0], 3)
    _merge_attn_states_torch(outs[1], prefix, lse, suffix, other, lses[1], 3)
    return torch.allclose(*outs, rtol=2**-10, atol=0) and torch.allclose(*lses, rtol=2**-20)


def write():
    """Whole rows by slot; -1 is skipped."""
    key, value = normal(TOKENS, HEADS, WIDTH), normal(TOKENS, HEADS, WIDTH)
    flat, kept = torch.zeros(2, BLOCKS, BLOCK, HEADS, WIDTH).half(), SLOTS >= 0
    ops.reshape_and_cache_flash(key, value, *flat, SLOTS, "auto", ONE, ONE)
    keys, values = normal(BLOCKS, HEADS, WIDTH // 8, BLOCK, 8), normal(BLOCKS, HEADS, WIDTH, BLOCK)
    ops.reshape_and_cache(key, value, keys, values, SLOTS, "auto", ONE, ONE)
    split = keys.permute(0, 3, 1, 2, 4).reshape(-1, HEADS, WIDTH), values.permute(0, 3, 1, 2).reshape(-1, HEADS, WIDTH)
    caches = [side.view(-1, HEADS, WIDTH) for side in flat] + list(split)
    return all(
        torch.equal(cache[SLOTS[kept]], x[kept]) for cache, x in zip(caches, (key, value, key, value), strict=True)
    ) and bool((flat.view(2, -1, HEADS, WIDTH)[:, 1:9] == 0).all())


def swap():
    """Blocks by number, and bytes by address."""
    source, target = normal(6, 32), torch.zeros(6, 32).half()
    ops.swap_blocks(source, target, 64, torch.tensor([[1, 5], [4, 0]]))
    blocks = torch.equal(target[[5, 0]], source[[1, 4]]) and not target[1:5].any()
    ops.swap_blocks_batch(*(torch.tensor([x.data_ptr()]) for x in (source, target)), torch.tensor([2 * 64]))
    return blocks and torch.equal(target[:2], source[:2])


print(json.dumps({"right": [merge(), write(), swap()], "called": sorted(define_upstream_operators().called)}))
