"""How many bytes the engine takes for its KV cache: the one number behind its argument, the capacity and the budget."""

from __future__ import annotations

from toolkit.config.schema.engine import EngineName
from toolkit.config.schema.verbs import DeploymentConfig

CPU_KV_BYTES = 2**30
"""The CPU engine's KV cache where limits.kv_cache_memory_bytes is null."""
MOST_GIB = 2**20
CPU_VARIABLE = "VLLM_CPU_KVCACHE_SPACE"
"""Whole GiB; it wins over the argument in vLLM 0.32 (platforms/cpu.py)."""


def kv_cache_is_told(config: DeploymentConfig) -> bool:
    """Whether the configuration itself gives the bytes."""
    of_environment = config.engine.name is EngineName.cpu and CPU_VARIABLE in config.engine.environment
    return config.limits.kv_cache_memory_bytes is not None or of_environment


def kv_cache_memory_bytes(config: DeploymentConfig) -> int | None:
    """Bytes of the KV cache on each rank; None where the engine finds them by profiling a GPU.

    A share of host memory is no sensible default: other programs live there, and the engine refuses to start when
    that share is not free.
    """
    asked = config.limits.kv_cache_memory_bytes
    if config.engine.name is not EngineName.cpu:
        return asked
    space = cpu_space(config)
    if space is not None:
        return space * 2**30
    return CPU_KV_BYTES if asked is None else asked


def cpu_space(config: DeploymentConfig) -> int | None:
    """GiB that the variable gives, read as vLLM reads it; None where it gives none, or none that memory comes in."""
    try:
        space = int(config.engine.environment.get(CPU_VARIABLE, ""))
    except ValueError:
        return None
    return space if 1 <= space <= MOST_GIB else None
