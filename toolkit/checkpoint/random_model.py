"""A tiny Llama model drawn from a seed, with a tokenizer of our own: it starts anywhere and answers nonsense."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.checkpoint.byte_tokenizer import CHAT_TEMPLATE, SMALLEST, tokenizer_json, tokenizer_settings
from toolkit.checkpoint.llama import llama_tensors
from toolkit.checkpoint.progress import Progress, step
from toolkit.checkpoint.safetensors_writer import NUMPY_DTYPES, Entry, write_safetensors
from toolkit.errors import ConfigurationError

if TYPE_CHECKING:
    import numpy as np

GENERATOR_VERSION = 2
"""Part of a random model's key; raised with every change of what is written."""

_DEFAULTS: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 64,
    "vocab_size": 512,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": True,
    "torch_dtype": "float16",
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_SIZES = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "max_position_embeddings",
)
_NUMBERS = ("rms_norm_eps", "rope_theta")


def random_config(declared: Mapping[str, Any]) -> dict[str, Any]:
    """config.json: what is declared, and small values for the rest; ConfigurationError where it cannot be built."""
    config = _DEFAULTS | dict(declared)
    faults = {key: fault for key, value in config.items() if (fault := _fault(key, value))} or _size_faults(config)
    for key, fault in faults.items():
        raise ConfigurationError(
            f"checkpoint.declared.{key} {fault}",
            where="checkpoint.source.kind=random",
            fix=f"remove checkpoint.declared.{key} (a fitting value is taken) or correct it",
        )
    return config


def _fault(key: str, value: Any) -> str:
    """Why this key cannot have this value; empty if it can."""
    if key not in _DEFAULTS:
        return "is not known to the random model"
    if key in _SIZES:
        return "" if type(value) is int and value > 0 else f"is {value!r}, a positive whole number is needed"
    if key in _NUMBERS:
        return "" if type(value) in {int, float} and value > 0 else f"is {value!r}, a positive number is needed"
    if key == "tie_word_embeddings":
        return "" if type(value) is bool else f"is {value!r}, true or false is needed"
    return "" if value == _DEFAULTS[key] else f"must be {_DEFAULTS[key]!r}"


def _size_faults(config: Mapping[str, Any]) -> dict[str, str]:
    """Sizes that do not fit together."""
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    faults = {}
    if heads % kv_heads:
        faults["num_key_value_heads"] = f"is {kv_heads}, which does not divide num_attention_heads {heads}"
    if config["head_dim"] % 2:
        faults["head_dim"] = f"is {config['head_dim']}, an even number is needed"
    if config["vocab_size"] < SMALLEST:
        faults["vocab_size"] = f"is {config['vocab_size']}, the byte-level tokenizer needs at least {SMALLEST}"
    return faults


def build_random(config: Mapping[str, Any], seed: int, folder: Path, progress: Progress) -> None:
    """Fill the empty `folder` with the model of `config` (random_config's); same config and seed, same bytes."""
    shapes = llama_tensors(config)
    entries = [Entry(name, "F16", shape) for name, shape in shapes.items()]
    with step(progress, "drawing a random model", None):
        weights = _draw(shapes, seed)
        write_safetensors(folder / "model.safetensors", entries, weights, {"format": "pt"})
    _dump(folder / "config.json", config)
    _dump(folder / "generation_config.json", {key: config[key] for key in config if key.endswith("_token_id")})
    _dump(folder / "tokenizer.json", tokenizer_json(config["vocab_size"]))
    _dump(folder / "tokenizer_config.json", tokenizer_settings(config["max_position_embeddings"]))
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")


def _draw(shapes: Mapping[str, tuple[int, ...]], seed: int) -> Iterator[np.ndarray[Any, Any]]:
    """Norms are 1; a matrix is normal with variance 1 / columns, which keeps activations near 1 in every layer.

    But for two: drawn alike, the tied output would repeat the token that came in, and attention's average over the
    text would hide which token that was. So embeddings are smaller, and the MLPs, which see it, speak louder.
    """
    import numpy as np

    for name, shape in shapes.items():
        if len(shape) == 1:
            yield np.ones(shape, NUMPY_DTYPES["F16"])
            continue
        # Each tensor has a stream of its own, so none depends on the order or on the other shapes.
        key = int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest(), "little")
        draws = np.random.Generator(np.random.PCG64(key)).standard_normal(shape, dtype=np.float32)
        yield (draws * _scale(name, shape[1])).astype(NUMPY_DTYPES["F16"])


def _scale(name: str, columns: int) -> float:
    if name == "model.embed_tokens.weight":
        return 0.2
    return (4.0 if name.endswith("down_proj.weight") else 1.0) / sqrt(columns)


def _dump(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
