"""What one step attends to, put into Python numbers and views once for all layers."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor
from vllm.config import VllmConfig
from vllm.v1.attention.backend import AttentionMetadataBuilder, CommonAttentionMetadata
from vllm.v1.attention.backends.cpu_attn import CPUAttentionMetadata, CPUAttentionMetadataBuilder
from vllm.v1.kv_cache_interface import AttentionSpec, CrossAttentionSpec, EncoderOnlyAttentionSpec

from toolkit.plugin.cpu_attention.paged import Request


@dataclass
class CpuFp8Metadata(CPUAttentionMetadata):
    """Upstream's metadata, and the step's requests that have new tokens."""

    requests: tuple[Request, ...] = ()


class CpuFp8MetadataBuilder(CPUAttentionMetadataBuilder):
    """Builds CpuFp8Metadata for a group of layers with an FP8 cache, upstream's metadata for any other group."""

    def __init__(
        self, kv_cache_spec: AttentionSpec, layer_names: list[str], vllm_config: VllmConfig, device: torch.device
    ) -> None:
        self.holds_fp8 = kv_cache_spec.dtype == torch.uint8 and not isinstance(kv_cache_spec, EncoderOnlyAttentionSpec)
        if self.holds_fp8:
            # Upstream's constructor refuses FP8 here; the two below hold all that this class needs of it.
            AttentionMetadataBuilder.__init__(self, kv_cache_spec, layer_names, vllm_config, device)
            self.is_cross_attention = isinstance(kv_cache_spec, CrossAttentionSpec)
        else:
            super().__init__(kv_cache_spec, layer_names, _without_fp8(vllm_config), device)

    def build(
        self, common_prefix_len: int, common_attn_metadata: CommonAttentionMetadata, fast_build: bool = False
    ) -> CPUAttentionMetadata:
        """Metadata of one step (upstream's contract)."""
        if not self.holds_fp8:
            return super().build(common_prefix_len, common_attn_metadata, fast_build)
        common = common_attn_metadata
        per_request = common.causal if isinstance(common.causal, Tensor) else None
        causal = per_request is None and bool(common.causal) and not self.is_cross_attention
        return CpuFp8Metadata(
            num_actual_tokens=common.num_actual_tokens,
            max_query_len=common.max_query_len,
            query_start_loc=common.query_start_loc,
            max_seq_len=common.max_seq_len,
            seq_lens=common.seq_lens,
            block_table=common.block_table_tensor,
            slot_mapping=common.slot_mapping,
            scheduler_metadata=None,
            causal=causal,
            dynamic_causal=per_request,
            requests=_requests(common, causal, None if self.is_cross_attention else per_request),
        )


def _requests(common: CommonAttentionMetadata, causal: bool, per_request: Tensor | None) -> tuple[Request, ...]:
    starts = common.query_start_loc.tolist()
    contexts = common.seq_lens.tolist()
    flags = [causal] * common.num_reqs if per_request is None else [bool(flag) for flag in per_request.tolist()]
    return tuple(
        Request(starts[i], starts[i + 1], contexts[i], common.block_table_tensor[i], flags[i])
        for i in range(common.num_reqs)
        if starts[i + 1] > starts[i]
    )


def _without_fp8(vllm_config: VllmConfig) -> VllmConfig:
    """The configuration as layers see it that keep no FP8 cache in a model that otherwise does."""
    if vllm_config.cache_config.cache_dtype == "auto":
        return vllm_config
    config = copy.copy(vllm_config)
    config.cache_config = copy.copy(vllm_config.cache_config)
    config.cache_config.cache_dtype = "auto"
    return config
