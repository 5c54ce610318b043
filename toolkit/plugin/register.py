"""Entry point `vllm.general_plugins`: registers what this machine needs, and nothing else.

vLLM calls `register` in the API server, the engine core and every worker, in some of them more than once and always
before a configuration exists. So it only puts our backend's path into vLLM's registry; the backend itself decides,
for each layer, whether it or upstream's does the work.
"""

from __future__ import annotations

import logging

SUPPORTED_VERSION = "0.32."
CPU_FP8_BACKEND = "toolkit.plugin.cpu_attention.backend.CpuFp8AttentionBackend"
CPU_ROUNDED_BACKEND = "toolkit.plugin.cpu_attention.rounded.CpuRoundedAttentionBackend"

logger = logging.getLogger("vllm.volta")  # below vLLM's own, so that it is shown where vLLM's lines are


def register() -> None:
    """On a CPU take over FP8 caches: all of them where vLLM has no FP8 attention, elsewhere what is stored in them."""
    import vllm

    if not vllm.__version__.startswith(SUPPORTED_VERSION):
        logger.error(
            "The volta plugin takes nothing over: it is made for vLLM %sx, and this is vLLM %s.",
            SUPPORTED_VERSION,
            vllm.__version__,
        )
        return
    from vllm.platforms import current_platform

    if current_platform.is_cpu():
        _override_cpu_backend(CPU_ROUNDED_BACKEND if _upstream_reads_fp8() else CPU_FP8_BACKEND)


def _upstream_reads_fp8() -> bool:
    """Upstream's own probes, so that both decide alike; planning.attention_routes answers the same from flags."""
    import torch

    return bool(torch.cpu._is_avx512_supported() or torch.cpu._is_amx_tile_supported())


def _override_cpu_backend(path: str) -> None:
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    backend = AttentionBackendEnum.CPU_ATTN
    if not backend.is_overridden():
        register_backend(backend, path)
    elif backend.get_path() != path:
        logger.warning("The volta plugin leaves CPU_ATTN alone: %s has overridden it.", backend.get_path())
