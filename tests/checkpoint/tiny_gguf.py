"""A tiny Llama model as a GGUF file, written by the gguf library, and the weights that it was made from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

HIDDEN, INNER, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 64, 96, 2, 4, 2, 16

PARTS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
SHAPES = {
    "input_layernorm": (HIDDEN,),
    "self_attn.q_proj": (HEADS * HEAD_DIM, HIDDEN),
    "self_attn.k_proj": (KV_HEADS * HEAD_DIM, HIDDEN),
    "self_attn.v_proj": (KV_HEADS * HEAD_DIM, HIDDEN),
    "self_attn.o_proj": (HIDDEN, HEADS * HEAD_DIM),
    "post_attention_layernorm": (HIDDEN,),
    "mlp.gate_proj": (INNER, HIDDEN),
    "mlp.up_proj": (INNER, HIDDEN),
    "mlp.down_proj": (HIDDEN, INNER),
}


def vocabulary() -> tuple[list[str], list[str]]:
    """Tokens and merges of a byte-level tokenizer: three control tokens, the bytes, and three merged tokens."""
    from toolkit.checkpoint.byte_tokenizer import byte_letters

    merges = ["h e", "l l", "he ll"]
    return [
        "<|im_start|>",
        "<|im_end|>",
        "<|endoftext|>",
        *byte_letters(),
        *(merge.replace(" ", "") for merge in merges),
    ], merges


def weights(*, tied: bool = True, seed: int = 0) -> dict[str, np.ndarray]:
    """Float32 weights by Hugging Face's names."""
    generator = np.random.default_rng(seed)
    vocab = len(vocabulary()[0])
    shapes = {"model.embed_tokens": (vocab, HIDDEN), "model.norm": (HIDDEN,)}
    shapes |= {f"model.layers.{layer}.{part}": shape for layer in range(LAYERS) for part, shape in SHAPES.items()}
    if not tied:
        shapes["lm_head"] = (vocab, HIDDEN)
    return {f"{name}.weight": generator.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def llama_cpp_name(name: str) -> str:
    fixed = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}
    if name in fixed or name == "lm_head.weight":
        return fixed.get(name, "output.weight")
    _, _, layer, part = name.removesuffix(".weight").split(".", 3)
    return f"blk.{layer}.{PARTS[part]}.weight"


def llama_cpp_rows(name: str, values: np.ndarray) -> np.ndarray:
    """q and k as llama.cpp stores them, row by row: new row 2i of a head is old row i, 2i + 1 is old row d/2 + i."""
    if not name.endswith(("q_proj.weight", "k_proj.weight")):
        return values
    rows = []
    for head in range(values.shape[0] // HEAD_DIM):
        for i in range(HEAD_DIM // 2):
            rows += [values[head * HEAD_DIM + i], values[head * HEAD_DIM + HEAD_DIM // 2 + i]]
    return np.stack(rows)


def write(
    path: Path, tensors: dict[str, np.ndarray], *, kind: str = "F32", arch: str = "llama", **changes: Any
) -> Path:
    """Write the file. kind: the type of the matrices; changes: metadata to set (None leaves a pair out)."""
    import gguf

    writer = gguf.GGUFWriter(path, arch)
    tokens, merges = vocabulary()
    pairs = {
        "llama.context_length": 128,
        "llama.embedding_length": HIDDEN,
        "llama.block_count": LAYERS,
        "llama.feed_forward_length": INNER,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.rope.dimension_count": HEAD_DIM,
        "llama.rope.freq_base": 10000.0,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3, 3, 3] + [1] * (len(tokens) - 3),
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": "{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}",
    } | changes
    for name, value in pairs.items():
        add(writer, name, value)
    for name, values in tensors.items():
        matrix = values.ndim == 2 and kind != "F32"
        quant = gguf.GGMLQuantizationType[kind if matrix else "F32"]
        stored = llama_cpp_rows(name, values)
        writer.add_tensor(
            llama_cpp_name(name) if name.startswith(("model.", "lm_head")) else name,
            gguf.quantize(stored, quant) if matrix else stored,
            raw_dtype=quant if matrix else None,
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def add(writer: Any, name: str, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool):
        writer.add_bool(name, value)
    elif isinstance(value, int):
        writer.add_uint32(name, value)
    elif isinstance(value, float):
        writer.add_float32(name, value)
    elif isinstance(value, str):
        writer.add_string(name, value)
    else:
        writer.add_array(name, value)
