"""vLLM's Triton attention with FP8 caches on SM70: our writer, and a reader that decodes E4M3 by itself.

Upstream's writer needs FP8 conversions that the GPU lacks, and Triton 3.6 has no E4M3 type for SM70. So codes are
written by torch.ops.volta.kv_cache_write, and read as E5M2, which Triton converts, or as bytes, which
toolkit.plugin.patches.triton_e4m3 decodes.
"""

from __future__ import annotations

from typing import Any

import torch
from vllm.v1.attention.backend import AttentionLayer
from vllm.v1.attention.backends.triton_attn import TritonAttentionBackend, TritonAttentionImpl
from vllm.v1.kv_cache_interface import get_kv_quant_mode

from toolkit.plugin.patches import triton_e4m3

FORMATS = {"fp8": torch.float8_e4m3fn, "fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2}
READ_AS = {torch.float8_e4m3fn: torch.uint8, torch.float8_e5m2: torch.float8_e5m2}
UNSUPPORTED = ("int4_per_token_head", "int8_per_token_head", "fp8_per_token_head", "bfloat16")


class VoltaTritonImpl(TritonAttentionImpl):
    """One layer. Shapes and arguments are upstream's."""

    def __init__(  # noqa: PLR0917 - upstream passes them by position
        self,
        num_heads: int,
        head_size: int,
        scale: float,
        num_kv_heads: int,
        alibi_slopes: list[float] | None,
        sliding_window: int | None,
        kv_cache_dtype: str,
        *arguments: Any,
        **options: Any,
    ) -> None:
        """Like upstream's, which refuses FP8 below capability 8.9: it is told of an unquantized cache first."""
        shown = "auto" if kv_cache_dtype in FORMATS else kv_cache_dtype
        super().__init__(
            num_heads, head_size, scale, num_kv_heads, alibi_slopes, sliding_window, shown, *arguments, **options
        )
        self.supports_quant_query_input = False
        self._format = FORMATS.get(kv_cache_dtype)
        if self._format is None:
            return
        self.kv_cache_dtype = kv_cache_dtype
        self._kv_quant_mode = get_kv_quant_mode(kv_cache_dtype)
        self.fp8_dtype = READ_AS[self._format]
        if self.fp8_dtype is torch.uint8:
            triton_e4m3.apply()

    def do_kv_cache_update(
        self,
        layer: AttentionLayer,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        slot_mapping: torch.Tensor,
    ) -> None:
        """Write keys and values [tokens, heads, size] to the slots of a cache [blocks, heads, block, 2 * size]."""
        if self._format is None:
            super().do_kv_cache_update(layer, key, value, kv_cache, slot_mapping)
            return
        key_cache, value_cache = kv_cache.view(self._format).transpose(1, 2).chunk(2, dim=-1)
        torch.ops.volta.kv_cache_write(key, value, key_cache, value_cache, slot_mapping, layer._k_scale, layer._v_scale)


class VoltaTritonBackend(TritonAttentionBackend):
    """Upstream's Triton backend with that implementation."""

    supported_kv_cache_dtypes = [  # noqa: RUF012 - upstream's class attribute
        dtype for dtype in TritonAttentionBackend.supported_kv_cache_dtypes if dtype not in UNSUPPORTED
    ]

    @staticmethod
    def get_name() -> str:
        """The name that the registry knows."""
        return "VOLTA_TRITON"

    @staticmethod
    def get_impl_cls() -> type[VoltaTritonImpl]:
        """The implementation."""
        return VoltaTritonImpl
