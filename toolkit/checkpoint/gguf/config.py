"""config.json and generation_config.json from a GGUF file's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolkit.checkpoint.gguf.cursor import GgufError

_SHAPE = {
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "max_position_embeddings": "context_length",
}


def model_config(metadata: Mapping[str, Any], *, tied: bool, dtype: str) -> dict[str, Any]:
    """config.json of a Llama model; `tied` where the output projection is the embedding matrix.

    Raises GgufError for what a plain Llama model does not have.
    """
    _refuse_variants(metadata)
    config: dict[str, Any] = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
    config |= {key: _positive(metadata, f"llama.{name}") for key, name in _SHAPE.items()}
    heads = config["num_attention_heads"]
    config["num_key_value_heads"] = metadata.get("llama.attention.head_count_kv", heads)
    config["head_dim"] = _head_dim(metadata, config)
    config["vocab_size"] = metadata.get("llama.vocab_size") or len(metadata["tokenizer.ggml.tokens"])
    # The file holds float32; seven digits give back the decimal number that was meant.
    config["rms_norm_eps"] = float(f"{metadata['llama.attention.layer_norm_rms_epsilon']:.7g}")
    config["rope_theta"] = float(f"{metadata.get('llama.rope.freq_base', 10000.0):.7g}")
    config["hidden_act"] = "silu"
    config["attention_bias"] = config["mlp_bias"] = False
    config["tie_word_embeddings"] = tied
    config["torch_dtype"] = dtype
    return config | token_ids(metadata)


def token_ids(metadata: Mapping[str, Any]) -> dict[str, int]:
    """The special tokens' ids, as config.json and generation_config.json name them."""
    names = {"bos_token_id": "bos", "eos_token_id": "eos", "pad_token_id": "padding"}
    found = {key: metadata.get(f"tokenizer.ggml.{name}_token_id") for key, name in names.items()}
    return {key: token for key, token in found.items() if token is not None}


def _positive(metadata: Mapping[str, Any], name: str) -> int:
    value = metadata.get(name)
    if type(value) is not int or value < 1:
        raise GgufError(f"metadata {name} is {value!r}, a positive number is needed")
    return value


def _head_dim(metadata: Mapping[str, Any], config: Mapping[str, Any]) -> int:
    head_dim = metadata.get("llama.attention.key_length") or config["hidden_size"] // config["num_attention_heads"]
    value_dim = metadata.get("llama.attention.value_length", head_dim)
    rotary = metadata.get("llama.rope.dimension_count", head_dim)
    if not head_dim == value_dim == rotary or head_dim % 2:
        raise GgufError(f"heads of {head_dim} with values of {value_dim} and {rotary} rotary are not converted")
    return int(head_dim)


def _refuse_variants(metadata: Mapping[str, Any]) -> None:
    architecture = metadata.get("general.architecture")
    if architecture != "llama":
        raise GgufError(f"its architecture is {architecture!r}; only llama is converted")
    if metadata.get("llama.expert_count"):
        raise GgufError("it is a mixture of experts; only dense llama is converted")
    scaling = metadata.get("llama.rope.scaling.type", "none")
    if scaling != "none":
        raise GgufError(f"its rotary positions are scaled ({scaling}); only unscaled ones are converted")
    for name in ("tokenizer.ggml.tokens", "llama.attention.layer_norm_rms_epsilon"):
        if name not in metadata:
            raise GgufError(f"metadata {name} is missing")
