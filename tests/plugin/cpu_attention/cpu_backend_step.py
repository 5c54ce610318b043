"""One step of attention through a backend's own classes, as vLLM calls them."""

from __future__ import annotations

import functools
from types import SimpleNamespace

import torch
from vllm.config import CacheConfig, DeviceConfig, VllmConfig, set_current_vllm_config
from vllm.v1.attention.backend import CommonAttentionMetadata
from vllm.v1.kv_cache_interface import FullAttentionSpec

HEADS, KV_HEADS, SIZE, TOKENS = 6, 2, 64, 32
LENGTHS = [(1, 1), (1, 70), (33, 33), (20, 90), (1, 64)]
MODEL = SimpleNamespace(dtype=torch.float32, get_num_attention_heads=lambda _: HEADS)


class Layer:
    """What upstream's code reads of an attention layer."""

    isa = "vec"

    def __init__(self, scales=(1.0, 1.0)):
        self._k_scale_float, self._v_scale_float = scales
        self._k_scale, self._v_scale = torch.tensor(scales[0]), torch.tensor(scales[1])


@functools.cache  # vLLM takes most of a second to make one
def config_of(dtype):
    config = VllmConfig(cache_config=CacheConfig(cache_dtype=dtype), device_config=DeviceConfig("cpu"))
    config.model_config = MODEL
    return config


def impl_of(backend, dtype, **extra):
    arguments = {"alibi_slopes": None, "sliding_window": None} | extra
    with set_current_vllm_config(config_of(dtype)):
        return backend.get_impl_cls()(HEADS, SIZE, SIZE**-0.5, KV_HEADS, kv_cache_dtype=dtype, **arguments)


def builder_of(backend, dtype, spec=None):
    stored = torch.float32 if dtype == "auto" else torch.uint8
    spec = spec or FullAttentionSpec(block_size=TOKENS, num_kv_heads=KV_HEADS, head_size=SIZE, dtype=stored)
    return backend.get_builder_cls()(spec, [], config_of(dtype), torch.device("cpu"))


class Step:
    """A mixed step of prefills and decodes, over keys and values that either FP8 format holds exactly."""

    def __init__(self):
        torch.manual_seed(7)
        self.blocks = [-(-context // TOKENS) for _, context in LENGTHS]
        order = torch.randperm(sum(self.blocks)) + 1
        self.table = torch.zeros(len(LENGTHS), max(self.blocks), dtype=torch.int32)
        for row, part in enumerate(order.split(self.blocks)):
            self.table[row, : len(part)] = part
        self.new = [new for new, _ in LENGTHS]
        self.contexts = torch.tensor([context for _, context in LENGTHS], dtype=torch.int32)
        self.query = torch.randn(sum(self.new), HEADS, SIZE)
        self.keys, self.values = torch.randint(-8, 9, (2, int(self.contexts.sum()), KV_HEADS, SIZE)) / 4
        self.slots = torch.cat([self._slots(row) for row in range(len(LENGTHS))])

    def _slots(self, row):
        positions = torch.arange(int(self.contexts[row]))
        return self.table[row].long()[positions // TOKENS] * TOKENS + positions % TOKENS

    def common(self, causal=True):
        starts = torch.tensor([0, *torch.tensor(self.new).cumsum(0).tolist()], dtype=torch.int32)
        return CommonAttentionMetadata(
            query_start_loc=starts,
            query_start_loc_cpu=starts,
            seq_lens=self.contexts,
            num_reqs=len(LENGTHS),
            num_actual_tokens=sum(self.new),
            max_query_len=max(self.new),
            max_seq_len=int(self.contexts.max()),
            block_table_tensor=self.table,
            slot_mapping=self.slots[-sum(self.new) :],
            causal=causal,
        )

    def run(self, backend, dtype, *, causal=True, scales=(1.0, 1.0), **extra):
        impl, layer = impl_of(backend, dtype, **extra), Layer(scales)
        stored = torch.float32 if dtype == "auto" else torch.uint8
        kv_cache = torch.zeros(sum(self.blocks) + 1, KV_HEADS, TOKENS, 2 * SIZE, dtype=stored)
        impl.do_kv_cache_update(layer, self.keys * scales[0], self.values * scales[1], kv_cache, self.slots)
        metadata = builder_of(backend, dtype).build(0, self.common(causal))
        output = torch.full((sum(self.new), HEADS, SIZE), torch.nan)
        assert impl.forward(layer, self.query, None, None, kv_cache, metadata, output) is output
        return output
