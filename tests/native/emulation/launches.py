"""Launches that the host code computes for given sizes, without running a kernel.

usage: launches.py LIBRARY, input {"kernel": {"rows": 16384, ...}, ...}; prints, as JSON for each of them, the kernel
that was launched, threads a block, and blocks.

Every tensor is empty and never touched, so that its size costs address space only.
"""

import ctypes
import json
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import torch

from toolkit.native.names import KernelName, parse

TYPES = {
    "f16": torch.float16,
    "f32": torch.float32,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "i32": torch.int32,
    "i64": torch.int64,
    "u8": torch.uint8,
}
VOLTA = torch.ops.volta


@dataclass(frozen=True)
class Call:
    """A kernel's name and its sizes, and tensors that lead there."""

    name: KernelName
    sizes: dict[str, int]

    def __getattr__(self, size):
        return self.sizes[size]

    @property
    def one_by_one(self):
        """Whether the kernel is the one for data that packs do not fit."""
        return self.name.layout.endswith("1") or self.name.layout == "single"

    def data(self, which, *shape):
        """A tensor of the kernel's type `which`, misaligned where that kernel is for such."""
        return self.of(TYPES[self.name.types[which]], *shape)

    def of(self, dtype, *shape):
        count = torch.Size(shape).numel()
        shift = 1 if self.one_by_one else 0
        return torch.empty(count + shift, dtype=dtype)[shift:].view(shape)


def ints(*shape):
    return torch.empty(shape, dtype=torch.int32)


def longs(*shape):
    return torch.empty(shape, dtype=torch.int64)


def bools(*shape):
    return torch.empty(shape, dtype=torch.bool)


def floats(*shape):
    return torch.empty(shape)


def rms_norm(c):
    VOLTA.rms_norm(c.data(-1, c.rows, c.columns), c.data(0, c.rows, c.columns), c.data(0, c.columns), 1e-6)


def fused_add_rms_norm(c):
    VOLTA.fused_add_rms_norm(*(c.data(0, c.rows, c.columns) for _ in range(2)), c.data(0, c.columns), 1e-6)


def gemma_rms_norm(c):
    residual = c.data(1, c.rows, c.columns) if len(c.name.types) == 3 else None
    result, x = c.data(-1, c.rows, c.columns), c.data(0, c.rows, c.columns)
    VOLTA.gemma_rms_norm(result, x, residual, c.data(0, c.columns), 1e-6)


def gated(c):
    parameters = {"fatrelu_and_mul": (0.0,), "silu_and_mul_with_clamp": (7.0,)}.get(c.name.operation, ())
    getattr(VOLTA, c.name.operation)(c.data(-1, c.rows, c.columns), c.data(0, c.rows, 2 * c.columns), *parameters)


def rotary_embedding(c):
    query, neox = c.data(0, c.tokens, c.heads * c.width), c.name.layout.startswith("neox")
    VOLTA.rotary_embedding(longs(c.tokens), query, None, c.width, c.data(1, 4096, c.width), neox)


def cache(c, *block):
    """Dense keys and values, and a cache of blocks of 16 positions for each."""
    (form,) = set(c.name.types) - {"f16"} or {"f16"}
    dense = [c.of(torch.float16, c.tokens, c.heads, c.width) for _ in range(2)]
    return dense, [c.of(TYPES[form], c.tokens // 16, *shape) for shape in block]


def kv_cache_write(c):
    dense, caches = cache(c, *[(16, c.heads, c.width)] * 2)
    VOLTA.kv_cache_write(*dense, *caches, longs(c.tokens), floats(1), floats(1))


def kv_cache_gather(c):
    dense, caches = cache(c, *[(16, c.heads, c.width)] * 2)
    VOLTA.kv_cache_gather(*caches, ints(4, c.tokens // 64), ints(5), None, *dense, floats(1), floats(1))


def reshape_and_cache(c):
    dense, caches = cache(c, (c.heads, c.width // 8, 16, 8), (c.heads, c.width, 16))
    form = {torch.float16: "auto", torch.float8_e4m3fn: "fp8_e4m3", torch.float8_e5m2: "fp8_e5m2"}[caches[0].dtype]
    VOLTA.reshape_and_cache(*dense, *caches, longs(c.tokens), form, floats(1), floats(1))


def merge_attention(c):
    out, parts = c.data(-1, c.tokens, c.heads, c.width), c.data(0, c.parts, c.tokens, c.heads, c.width)
    VOLTA.merge_attention(out, floats(c.tokens, c.heads), parts, floats(c.parts, c.tokens, c.heads), True)


def merge_attn_states(c):
    out, one, two = (c.data(0, c.tokens, c.heads, c.width) for _ in range(3))
    lse = floats(c.heads, c.tokens)
    VOLTA.merge_attn_states(out, lse, one, lse, two, lse, None)


def dcp_local_seq_lens(c):
    VOLTA.dcp_local_seq_lens(ints(c.requests), ints(c.requests), 2, 0, 1)


def dcp_slot_mapping(c):
    VOLTA.dcp_slot_mapping(longs(c.tokens), longs(c.tokens), ints(9), ints(8, 256), 16, 2, 0, 1)


def topk(c):
    weights, ids, places = floats(c.rows, c.k), ints(c.rows, c.k), ints(c.rows, c.k)
    gating, rest = c.data(0, c.rows, c.experts), {"topk_softmax": (None, None), "topk_sigmoid": (None, 1.0, None)}
    last = rest.get(c.name.operation, (1.0, None, None, None, None))
    getattr(VOLTA, c.name.operation)(weights, ids, places, gating, True, *last)


def grouped_topk(c):
    VOLTA.grouped_topk(c.data(0, c.rows, c.experts), 8, 4, c.k, True, 1.0, floats(c.experts), 1)


def moe_align_block_size(c):
    places = ints(c.entries + c.experts * 15), ints(c.entries + c.experts), ints(1)
    VOLTA.moe_align_block_size(ints(c.entries // 8, 8), c.experts, 16, *places, None)


def moe_lora_align_block_size(c):
    padded, tokens = c.entries + c.experts * 15, c.entries // 8
    places = ints(c.adapters * padded), ints(c.adapters * padded), ints(c.adapters)
    lora = ints(c.adapters), ints(c.adapters)
    sizes = c.experts, 16, c.adapters, padded, padded
    VOLTA.moe_lora_align_block_size(ints(tokens, 8), ints(tokens), *sizes, *places, *lora, None)


def batched_moe_align_block_size(c):
    each = c.entries // c.batches
    VOLTA.batched_moe_align_block_size(each, 16, ints(c.batches), ints(2 * c.entries), ints(c.entries), ints(1))


def moe_sum(c):
    VOLTA.moe_sum(c.data(0, c.tokens, c.k, c.columns), c.data(-1, c.tokens, c.columns))


def gather_rows(c):
    """Rows of bytes at an address that allows just this kernel's words."""
    shift = int(c.name.layout.removeprefix("rows")) % 16
    table, out = (
        torch.empty(c.tokens * c.bytes + shift, dtype=torch.uint8)[shift:].view(-1, c.bytes) for _ in range(2)
    )
    VOLTA.shuffle_rows(table, ints(c.tokens), out)


def apply_repetition_penalties(c):
    masks = [bools(c.rows, c.words) for _ in range(2)]
    VOLTA.apply_repetition_penalties_(c.data(0, c.rows, c.words), *masks, c.data(0, c.rows))


def topk_topp_support(c):
    by = floats(c.rows), ints(c.rows), floats(c.rows)
    VOLTA.topk_topp_support(ints(c.rows, c.k), floats(c.rows, c.k), ints(c.rows), c.data(0, c.rows, c.vocabulary), *by)


def compact_rejection(c):
    positions = c.requests * (c.drafts + 1)
    support = ints(positions, c.k), floats(positions, c.k), ints(positions)
    drafts = longs(c.requests, c.drafts)
    VOLTA.compact_rejection(
        longs(c.requests, c.drafts + 1),
        ints(c.requests),
        drafts,
        *support,
        floats(c.requests, c.drafts),
        floats(c.requests),
    )


GATED = (
    "silu_and_mul",
    "gelu_and_mul",
    "gelu_tanh_and_mul",
    "mul_and_silu",
    "fatrelu_and_mul",
    "silu_and_mul_with_clamp",
    "swigluoai_and_mul",
)
SHARED = {
    **dict.fromkeys(GATED, gated),
    **dict.fromkeys(("topk_softmax", "topk_sigmoid", "topk_softplus_sqrt"), topk),
}
"""Operations that one function calls."""


def main():
    torch.ops.load_library(sys.argv[1])
    emulator = ctypes.CDLL(sys.argv[1])
    emulator.emulated_launch.restype = ctypes.c_char_p
    emulator.emulated_launches(True)
    found: dict[str, tuple[str, int, int]] = {}
    for kernel, sizes in json.load(sys.stdin).items():
        name = parse(kernel)
        SHARED.get(name.operation, globals().get(name.operation))(
            Call(name, {size: int(number) for size, number in sizes.items()})
        )
        launched, threads, blocks = emulator.emulated_launch().decode().split()
        found[kernel] = launched, int(threads), int(blocks)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
