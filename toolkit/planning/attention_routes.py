"""Which attention implementation a KV cache dtype gets on a CPU: plain data, shared by the plugin and by planning."""

from __future__ import annotations

from collections.abc import Collection

FP8_DTYPES = frozenset({"fp8", "fp8_e4m3", "fp8_e5m2"})
"""vLLM's spellings of an FP8 cache; `fp8` means E4M3."""

UPSTREAM = "upstream"
"""vLLM's own C++ attention."""
VOLTA_CPU_WRITE = "volta_cpu_write"
"""vLLM's own C++ attention over keys and values that our plugin rounds to the nearest before they are stored."""
VOLTA_CPU_FP8 = "volta_cpu_fp8"
"""Our plugin's attention in torch operators, which needs no special instructions."""

V100_IMPLEMENTATION = "VoltaTritonImpl"
"""The class that computes attention on SM70."""

AVX512_FLAGS = frozenset({"avx512f", "avx512vl", "avx512bw", "avx512dq"})
"""What torch means by AVX-512, by the kernel's names."""
AMX_FLAG = "amx_tile"


def upstream_reads_fp8(cpu_flags: Collection[str]) -> bool:
    """Whether vLLM 0.32's C++ attention can hold an FP8 cache on a CPU with these flags."""
    return AVX512_FLAGS.issubset(cpu_flags) or AMX_FLAG in cpu_flags


def route(kv_cache_dtype: str, cpu_flags: Collection[str]) -> str:
    """The attention route for vLLM's `--kv-cache-dtype` on a CPU with these flags."""
    if kv_cache_dtype not in FP8_DTYPES:
        return UPSTREAM
    return VOLTA_CPU_WRITE if upstream_reads_fp8(cpu_flags) else VOLTA_CPU_FP8


def cpu_implementation(cpu_flags: Collection[str]) -> str:
    """The class of our plugin's that a layer has on a CPU, whatever its cache: without FP8 it does as upstream does."""
    return "CpuRoundedAttentionImpl" if upstream_reads_fp8(cpu_flags) else "CpuFp8AttentionImpl"


def describe(kv_cache_dtype: str, cpu_flags: Collection[str]) -> str:
    """The route in words for a plan, with the reason where it is not upstream's."""
    chosen = route(kv_cache_dtype, cpu_flags)
    if chosen == UPSTREAM:
        return f"{UPSTREAM} (C++)"
    if chosen == VOLTA_CPU_WRITE:
        return f"{VOLTA_CPU_WRITE} (C++), because vLLM's own cache write rounds towards zero"
    return f"{VOLTA_CPU_FP8} (torch), because this CPU lacks AVX-512 and AMX, which vLLM needs for an FP8 cache"
