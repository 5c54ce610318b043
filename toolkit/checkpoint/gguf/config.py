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
    config["num_key_value_heads"] = _kv_heads(metadata, config["num_attention_heads"])
    config["head_dim"] = _head_dim(metadata, config)
    config["vocab_size"] = metadata.get("llama.vocab_size") or len(metadata["tokenizer.ggml.tokens"])
    config["rms_norm_eps"] = _decimal(metadata, "llama.attention.layer_norm_rms_epsilon")
    config["rope_theta"] = _decimal({"llama.rope.freq_base": 10000.0, **metadata}, "llama.rope.freq_base")
    config["hidden_act"] = "silu"
    config["attention_bias"] = config["mlp_bias"] = False
    config["tie_word_embeddings"] = tied
    config["torch_dtype"] = dtype
    return config | token_ids(metadata)


def token_ids(metadata: Mapping[str, Any]) -> dict[str, int]:
    """The special tokens' ids, as config.json and generation_config.json name them; GgufError for one outside."""
    names = {"bos_token_id": "bos", "eos_token_id": "eos", "pad_token_id": "padding"}
    found = {key: metadata.get(f"tokenizer.ggml.{name}_token_id") for key, name in names.items()}
    for name, token in zip(names.values(), found.values(), strict=True):
        if token is not None and not (type(token) is int and token < len(metadata["tokenizer.ggml.tokens"])):
            raise GgufError(f"metadata tokenizer.ggml.{name}_token_id is {token}, no token of its vocabulary")
    return {key: token for key, token in found.items() if token is not None}


def _positive(metadata: Mapping[str, Any], name: str) -> int:
    value = metadata.get(name)
    if type(value) is not int or value < 1:
        raise GgufError(f"metadata {name} is {value!r}, a positive number is needed")
    return value


def _decimal(metadata: Mapping[str, Any], name: str) -> float:
    """A float32 of the file as the decimal number that was meant: seven digits give it back."""
    value = metadata.get(name)
    if type(value) is not float or not value > 0:
        raise GgufError(f"metadata {name} is {value!r}, a positive number is needed")
    return float(f"{value:.7g}")


def _kv_heads(metadata: Mapping[str, Any], heads: int) -> int:
    kv_heads = _positive({"llama.attention.head_count_kv": heads, **metadata}, "llama.attention.head_count_kv")
    if heads % kv_heads:
        raise GgufError(f"{heads} attention heads are not divisible by {kv_heads} key-value heads")
    return kv_heads


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
    if not isinstance(metadata.get("tokenizer.ggml.tokens"), list):
        raise GgufError("metadata tokenizer.ggml.tokens is missing")
