"""What torch.compile and the meta device need to know about each operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

MUTATING = (
    "rms_norm",
    "fused_add_rms_norm",
    "gemma_rms_norm",
    "silu_and_mul",
    "gelu_and_mul",
    "gelu_tanh_and_mul",
    "mul_and_silu",
    "fatrelu_and_mul",
    "silu_and_mul_with_clamp",
    "swigluoai_and_mul",
    "rotary_embedding",
    "kv_cache_write",
    "kv_cache_gather",
    "reshape_and_cache_flash",
    "reshape_and_cache",
    "merge_attention",
    "dcp_local_seq_lens",
    "dcp_slot_mapping",
    "topk_softmax",
    "topk_sigmoid",
    "topk_softplus_sqrt",
    "apply_repetition_penalties_",
    "moe_align_block_size",
    "moe_lora_align_block_size",
    "batched_moe_align_block_size",
    "moe_sum",
    "vocab_parallel_embedding",
    "shuffle_rows",
    "merge_attn_states",
    "swap_blocks",
    "swap_blocks_batch",
    "topk_topp_support",
    "compact_rejection",
)


def _like(x: Tensor) -> Tensor:
    return x.new_empty_strided(x.size(), x.stride())


def _on_cuda(x: Tensor) -> Tensor:
    return x.new_empty_strided(x.size(), x.stride(), device="cuda")


def _routed(scores: Tensor, _groups: int, _winning_groups: int, k: int, *_rest: object) -> tuple[Tensor, Tensor]:
    import torch

    shape = scores.size(0), k
    return scores.new_empty(shape, dtype=torch.float32), scores.new_empty(shape, dtype=torch.int32)


MAKING: dict[str, Callable[..., object]] = {
    "weak_ref_tensor": _like,
    "get_cuda_view_from_cpu_tensor": _on_cuda,
    "grouped_topk": _routed,
}


def register() -> None:
    """Register a fake for every operator: most write into their arguments and return nothing, some make tensors."""
    import torch

    for name in MUTATING:
        torch.library.register_fake(f"volta::{name}", _nothing)
    for name, fake in MAKING.items():
        torch.library.register_fake(f"volta::{name}", fake)


def _nothing(*_arguments: object, **_options: object) -> None:
    """Shapes and types are the caller's; there is nothing to infer."""
