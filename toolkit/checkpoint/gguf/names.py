"""llama.cpp's tensor names of a Llama model, and Hugging Face's."""

from __future__ import annotations

import re

_BLOCK = re.compile(r"blk\.(?P<layer>\d+)\.(?P<part>\w+)\.weight")
_PARTS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_OTHERS = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}


def huggingface_name(name: str) -> str | None:
    """Hugging Face's name of llama.cpp's tensor; None for one that a plain Llama model does not have."""
    match = _BLOCK.fullmatch(name)
    if match is None:
        return _OTHERS.get(name)
    part = _PARTS.get(match["part"])
    return part and f"model.layers.{int(match['layer'])}.{part}.weight"
