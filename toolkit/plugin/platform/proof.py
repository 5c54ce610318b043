"""`prove_on_any_gpu`: a newer GPU takes a V100's way where a library asks the device and not the platform.

Triton asks torch which code to make, so torch's own answer stays; what FLA's kernels choose their tiles by is changed.
"""

from __future__ import annotations

SHARED_MEMORY = 98304
"""Bytes of shared memory that one block of a V100 can have."""


def choose_like_a_v100() -> None:
    """Let FLA's kernels see a GPU that is no Hopper and has a V100's shared memory, before they are imported."""
    from vllm.third_party.flash_linear_attention.ops import utils

    utils.is_nvidia_hopper = False
    utils.is_tma_supported = False
    utils.get_all_max_shared_mem = _shared_memory
    utils.check_shared_mem.cache_clear()


def _shared_memory() -> list[int]:
    import torch

    return [SHARED_MEMORY] * torch.cuda.device_count()
