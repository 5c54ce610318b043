"""The tensors that a Llama model of a given config.json has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def llama_tensors(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Every tensor's name and shape, rows first, in the model's order (no biases; tied embeddings have no lm_head)."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    head_dim = config.get("head_dim") or hidden // heads
    layer = {
        "input_layernorm": (hidden,),
        "self_attn.q_proj": (heads * head_dim, hidden),
        "self_attn.k_proj": (kv_heads * head_dim, hidden),
        "self_attn.v_proj": (kv_heads * head_dim, hidden),
        "self_attn.o_proj": (hidden, heads * head_dim),
        "post_attention_layernorm": (hidden,),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
    }
    tensors: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (config["vocab_size"], hidden)}
    for index in range(config["num_hidden_layers"]):
        tensors |= {f"model.layers.{index}.{name}.weight": shape for name, shape in layer.items()}
    tensors["model.norm.weight"] = (hidden,)
    if not config.get("tie_word_embeddings", False):
        tensors["lm_head.weight"] = (config["vocab_size"], hidden)
    return tensors
