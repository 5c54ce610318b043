"""Upstream's C++ attention over an FP8 cache whose keys and values are rounded to the nearest.

vLLM 0.32's own cache write rounds towards zero, so that half of a cache's bytes lie a step below the nearest. Here keys
and values are rounded first, and upstream stores numbers that FP8 holds exactly, with a scale of 1. The cache's layout
and its reading stay upstream's, and what is read is multiplied by the layer's own scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor
from vllm.logger import init_logger
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend, CPUAttentionBackendImpl

from toolkit.planning.attention_routes import FP8_DTYPES, VOLTA_CPU_WRITE
from toolkit.plugin.cpu_attention.fp8 import format_of

logger = init_logger("vllm.volta")


@dataclass(frozen=True)
class Unscaled:
    """What upstream's cache write reads of a layer, with scales of 1."""

    isa: str
    _k_scale_float: float = 1.0
    _v_scale_float: float = 1.0


class CpuRoundedAttentionImpl(CPUAttentionBackendImpl):
    """One layer's attention; its constructor arguments are upstream's."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fp8 = format_of(self.kv_cache_dtype) if self.kv_cache_dtype in FP8_DTYPES else None
        if self.fp8 is not None:
            logger.info_once("Attention over the %s cache: %s (C++).", self.kv_cache_dtype, VOLTA_CPU_WRITE)

    def do_kv_cache_update(
        self, layer: Any, key: Tensor, value: Tensor, kv_cache: Tensor, slot_mapping: Tensor
    ) -> None:
        """Write new keys and values [tokens, kv_heads, head_size] at their slots (upstream's contract)."""
        if self.fp8 is not None:
            key = self.fp8.rounded(key, layer._k_scale_float)
            value = self.fp8.rounded(value, layer._v_scale_float)
            layer = Unscaled(layer.isa)
        super().do_kv_cache_update(layer, key, value, kv_cache, slot_mapping)


class CpuRoundedAttentionBackend(CPUAttentionBackend):
    """The backend behind the name CPU_ATTN where upstream can hold an FP8 cache."""

    @staticmethod
    def get_impl_cls() -> type[CpuRoundedAttentionImpl]:
        """The class of a layer's attention."""
        return CpuRoundedAttentionImpl
