"""What torch.compile and the meta device need to know about each operator."""

from __future__ import annotations

MUTATING = (
    "rms_norm",
    "fused_add_rms_norm",
    "silu_and_mul",
    "gelu_and_mul",
    "gelu_tanh_and_mul",
    "rotary_embedding",
    "kv_cache_write",
    "kv_cache_gather",
    "merge_attention",
)


def register() -> None:
    """Register a fake for every operator. All of them write into their arguments and return nothing."""
    import torch

    for name in MUTATING:
        torch.library.register_fake(f"volta::{name}", _nothing)


def _nothing(*_arguments: object, **_options: object) -> None:
    """Shapes and types are the caller's; there is nothing to infer."""
