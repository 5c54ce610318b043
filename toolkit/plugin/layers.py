"""The attention layers of a loaded model that keep a KV cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WITHOUT_CACHE = ("encoder", "encoder_only")
"""vLLM's attention types whose layers keep no KV cache."""


def attention_layers(vllm_config: Any) -> dict[str, Any]:
    """This worker's attention layers by vLLM's name, those of a draft model included.

    A layer counts if it has KV scales, which vLLM gives to every attention layer, whatever its class.
    """
    registered: Mapping[str, Any] = vllm_config.compilation_config.static_forward_context
    return {
        name: layer
        for name, layer in registered.items()
        if hasattr(layer, "_k_scale") and str(getattr(layer, "attn_type", "decoder")) not in WITHOUT_CACHE
    }


def shared_with(layer: Any) -> str | None:
    """The layer whose cache it reads; None for one with a cache of its own."""
    name: str | None = getattr(layer, "kv_sharing_target_layer_name", None)
    return name
