"""SM70 as vLLM sees it: CUDA of capability 7.0, with our operators in the place of vLLM's own libraries."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from platformdirs import user_cache_path

from toolkit import __version__
from toolkit.native import library
from toolkit.planning import platform_demand
from toolkit.plugin.operators.define import define_upstream_operators
from toolkit.plugin.platform import natives, proof
from toolkit.plugin.platform.caches import cache_folder, cache_variables

# vLLM's CUDA platform imports its native library, so the gate and the operators come before it.
natives.close_gate()
library.load()
define_upstream_operators()

from vllm.platforms.cuda import CudaPlatform  # noqa: E402
from vllm.platforms.interface import DeviceCapability  # noqa: E402
from vllm.v1.attention.backends.registry import register_backend  # noqa: E402

if TYPE_CHECKING:
    import torch
    from vllm.v1.attention.backends.registry import AttentionBackendEnum
    from vllm.v1.attention.selector import AttentionSelectorConfig

TRITON = "vllm.v1.attention.backends.triton_attn.TritonAttentionBackend"
VOLTA_TRITON = "toolkit.plugin.attention.triton.VoltaTritonBackend"


class V100Platform(CudaPlatform):  # type: ignore[misc, valid-type]
    """What an SM70 GPU can do. Where nothing is overridden, upstream's answer for capability 7.0 is the right one."""

    @classmethod
    def get_device_capability(cls, device_id: int = 0) -> DeviceCapability:  # noqa: ARG003 - all GPUs are alike
        """7.0, also on a newer GPU on which the routes are proved: the decision let no other in."""
        return DeviceCapability(7, 0)

    @classmethod
    def get_attn_backend_cls(
        cls,
        selected_backend: AttentionBackendEnum | None,
        attn_selector_config: AttentionSelectorConfig,
        num_heads: int | None = None,
    ) -> str:
        """Upstream's choice; its Triton backend is replaced by ours, which reads and writes FP8 caches on SM70."""
        chosen = super().get_attn_backend_cls(selected_backend, attn_selector_config, num_heads)
        return VOLTA_TRITON if chosen == TRITON else str(chosen)

    @classmethod
    def set_device(cls, device: torch.device) -> None:
        """Upstream's; a worker calls it before it imports a model."""
        super().set_device(device)
        if platform_demand.read(os.environ) is platform_demand.Demand.any_gpu:
            proof.choose_like_a_v100()

    @classmethod
    def use_custom_allreduce(cls) -> bool:
        """No: upstream's all-reduce kernels are in its own library. NCCL does the work."""
        return False

    @classmethod
    def is_arch_support_pdl(cls) -> bool:
        """No: programmatic dependent launch is of capability 9.0, whatever GPU proves the routes."""
        return False


def _prepare_process() -> None:
    """Settings that vLLM reads from the process; what the user has set stays."""
    os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")  # it is tried by default, and is not there
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")  # a fork cannot use a GPU that is in use
    for name, value in cache_variables(cache_folder(user_cache_path("volta-toolkit"), _versions())).items():
        os.environ.setdefault(name, value)
    register_backend("VOLTA_TRITON", VOLTA_TRITON)


def _versions() -> dict[str, str]:
    """Of what is imported: metadata may be of an older copy that lies elsewhere on the path."""
    import torch
    import triton
    import vllm

    return {
        "vllm": vllm.__version__,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "volta-toolkit": __version__,
    }


_prepare_process()
