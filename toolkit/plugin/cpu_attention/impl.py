"""One layer's attention: upstream's, or ours where the layer's cache is FP8."""

from __future__ import annotations

from typing import Any, cast

from torch import Tensor
from vllm.logger import init_logger
from vllm.v1.attention.backend import AttentionLayer, AttentionType
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackendImpl, CPUAttentionMetadata

from toolkit.planning.attention_routes import FP8_DTYPES, VOLTA_CPU_FP8
from toolkit.plugin.cpu_attention.attend import Rules
from toolkit.plugin.cpu_attention.fp8 import format_of
from toolkit.plugin.cpu_attention.metadata import CpuFp8Metadata
from toolkit.plugin.cpu_attention.paged import PagedAttention, Scales

logger = init_logger("vllm.volta")

WITHOUT_CACHE = (AttentionType.ENCODER, AttentionType.ENCODER_ONLY)


class CpuFp8AttentionImpl(CPUAttentionBackendImpl):
    """Upstream's implementation, whose constructor arguments it takes, with its own FP8 cache."""

    fp8: PagedAttention | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.attn_type in WITHOUT_CACHE:
            self.kv_cache_dtype, self.is_fp8_kv_cache = "auto", False
        if self.kv_cache_dtype in FP8_DTYPES:
            rules = Rules(
                window=self.sliding_window if self.sliding_window > 0 else None,
                soft_cap=self.logits_soft_cap or None,
                slopes=cast("Tensor | None", self.alibi_slopes),
                sinks=self.sinks,
            )
            self.fp8 = PagedAttention(format_of(self.kv_cache_dtype), self.scale, rules)
            logger.info_once("Attention over the %s cache: %s (torch).", self.kv_cache_dtype, VOLTA_CPU_FP8)

    def forward(  # noqa: PLR0917 upstream's signature
        self,
        layer: AttentionLayer,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        kv_cache: Tensor,
        attn_metadata: CPUAttentionMetadata | None,
        output: Tensor,
        output_scale: Tensor | None = None,
        output_block_scale: Tensor | None = None,
    ) -> Tensor:
        """Attend into `output` [tokens, heads, head_size] (upstream's contract); padding rows become zero."""
        if self.fp8 is None or output_scale is not None or output_block_scale is not None:
            return super().forward(
                layer, query, key, value, kv_cache, attn_metadata, output, output_scale, output_block_scale
            )
        if attn_metadata is None:  # vLLM measures the memory that a step takes
            return output.zero_()
        requests = cast("CpuFp8Metadata", attn_metadata).requests
        self.fp8.read(kv_cache, query, requests, _scales(layer), output)
        return output

    def do_kv_cache_update(
        self, layer: Any, key: Tensor, value: Tensor, kv_cache: Tensor, slot_mapping: Tensor
    ) -> None:
        """Write new keys and values [tokens, kv_heads, head_size] at their slots (upstream's contract)."""
        if self.fp8 is None:
            super().do_kv_cache_update(layer, key, value, kv_cache, slot_mapping)
        else:
            self.fp8.write(kv_cache, key, value, slot_mapping, _scales(layer))


def _scales(layer: Any) -> Scales:
    if layer._k_scale.numel() != 1 or layer._v_scale.numel() != 1:
        raise NotImplementedError(
            f"{VOLTA_CPU_FP8} takes one key and one value scale a layer, and this checkpoint has one for each head; "
            "serve it with --kv-cache-dtype auto."
        )
    return Scales(layer._k_scale_float, layer._v_scale_float)
