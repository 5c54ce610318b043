"""The backend behind the name CPU_ATTN: upstream's, except for layers whose cache is FP8.

vLLM resolves one class for all layers before it knows any layer's cache dtype, so the choice is made in the objects
that do know it: the implementation has its layer's dtype, the metadata builder its group's.
"""

from __future__ import annotations

from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend

from toolkit.plugin.cpu_attention.impl import CpuFp8AttentionImpl
from toolkit.plugin.cpu_attention.metadata import CpuFp8MetadataBuilder


class CpuFp8AttentionBackend(CPUAttentionBackend):
    """Upstream's CPU attention with an FP8 cache that needs neither AVX-512 nor AMX."""

    @staticmethod
    def get_impl_cls() -> type[CpuFp8AttentionImpl]:
        """The class of a layer's attention."""
        return CpuFp8AttentionImpl

    @staticmethod
    def get_builder_cls() -> type[CpuFp8MetadataBuilder]:
        """The class of a cache group's metadata builder."""
        return CpuFp8MetadataBuilder
