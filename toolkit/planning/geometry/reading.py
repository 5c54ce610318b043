"""From config.json to ModelGeometry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from toolkit.planning.geometry.families import FAMILY_OF, Family, layer_kinds, sliding_window
from toolkit.planning.geometry.keys import Keys
from toolkit.planning.geometry.model import (
    Attention,
    Experts,
    HyperConnections,
    Indexer,
    LayerKind,
    ModelGeometry,
    PerLayerEmbedding,
    Recurrent,
    Vision,
)
from toolkit.planning.geometry.quantization import Quantization, Scheme, read_quantization
from toolkit.planning.geometry.unread import unread_cache_keys, unread_parts, unread_shape_keys

_NESTED = ("text_config", "language_config", "llm_config")
# Keys that change what a layer keeps for a request in ways that this reader does not model.
_OTHER_CACHES = (
    "kv_lora_rank", "attention_chunk_size", "compress_ratios", "rswa_window", "block_configs", "per_layer_config",
    "num_kv_shared_layers", "ssm_state_size", "mamba_d_state", "cross_attention_layers",
)  # fmt: skip


def read_geometry(config: Mapping[str, Any]) -> ModelGeometry:
    """Read a model's shapes from its config.json alone.

    Raises ConfigurationError, naming the key, if one that planning needs is absent or has a wrong type. What the
    configuration says and this reader does not understand is named in the result's `unknown`.
    """
    outer = Keys(config)
    text = _text_keys(outer)
    architecture = next(iter(outer.texts("architectures") or text.texts("architectures")), "")
    known, family = architecture in FAMILY_OF, FAMILY_OF.get(architecture, Family.by_layer)
    kinds, strange = layer_kinds(text, family)
    quantization = read_quantization(outer if outer.has("quantization_config") else text)
    experts = _experts(text, len(kinds))
    vision, blind = _vision(outer)
    unknown_cache = strange + _named(filter(text.has, _OTHER_CACHES))
    geometry = ModelGeometry(
        architecture=architecture,
        hidden_size=text.positive("hidden_size"),
        intermediate_size=_dense_width(text, experts, len(kinds)),
        vocab_size=text.positive("vocab_size"),
        max_position_embeddings=text.optional_integer("max_position_embeddings"),
        tie_word_embeddings=text.boolean("tie_word_embeddings", outer.boolean("tie_word_embeddings", False)),
        layers=kinds,
        attention=_attention(text, family, kinds),
        quantization=quantization,
        recurrent=_recurrent(text, family) if LayerKind.recurrent in kinds else None,
        experts=experts,
        indexer=_indexer(text) if LayerKind.sparse in kinds else None,
        hyper_connections=_hyper_connections(text),
        per_layer_embedding=_per_layer_embedding(text),
        mtp_layers=text.integer("mtp_num_hidden_layers", text.integer("num_nextn_predict_layers", 0)),
        vision=vision,
    )
    caches, others = _unread(text, outer, known)
    told = _unknown(architecture, quantization) + tuple(dict.fromkeys((*unknown_cache, *blind, *caches, *others)))
    return replace(geometry, unknown=told, unknown_cache=unknown_cache + (() if known else caches))


def _unread(text: Keys, outer: Keys, known: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Keys of caches and other keys that nobody read; right only once everything has been read."""
    return _named(unread_cache_keys(text, known)), _named((*unread_shape_keys(text), *unread_parts(outer)))


def _named(keys: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"key '{name}'" for name in keys)


def _unknown(architecture: str, quantization: Quantization) -> tuple[str, ...]:
    unknown: tuple[str, ...] = () if architecture in FAMILY_OF else (f"architecture '{architecture or 'unnamed'}'",)
    if quantization.scheme is Scheme.unknown or Scheme.unknown in quantization.parts:
        unknown += (f"quantization '{quantization.container}'",)
    return unknown


def _text_keys(outer: Keys) -> Keys:
    for name in _NESTED:
        nested = outer.child(name)
        if nested is not None:
            return nested
    return outer


def _attention(text: Keys, family: Family, kinds: tuple[LayerKind, ...]) -> Attention:
    heads = text.positive("num_attention_heads")
    gated = family in (Family.hybrid, Family.sparse)
    window = sliding_window(text, family) if LayerKind.sliding in kinds else None
    if LayerKind.sliding in kinds and window is None:
        raise text.wrong("sliding_window", "tokens where layers slide", None)
    head_dim = text.optional_integer("head_dim") or text.positive("hidden_size") // heads
    return Attention(
        query_heads=heads,
        kv_heads=text.positive("num_key_value_heads", heads),
        head_dim=head_dim,
        window=window,
        output_gate=text.boolean("attn_output_gate", gated),
    )


def _recurrent(text: Keys, family: Family) -> Recurrent:
    # The engine reads this key for Qwen3.5 and Qwen4Exp alone; Qwen3-Next's state follows the engine's own dtype.
    reads_state_dtype = text.text("model_type", "") != "qwen3_next" and family in (Family.hybrid, Family.sparse)
    return Recurrent(
        key_heads=text.positive("linear_num_key_heads"),
        value_heads=text.positive("linear_num_value_heads"),
        key_dim=text.positive("linear_key_head_dim"),
        value_dim=text.positive("linear_value_head_dim"),
        conv_kernel=text.positive("linear_conv_kernel_dim"),
        state_dtype=_state_dtype(text) if reads_state_dtype else None,
    )


def _state_dtype(text: Keys) -> str | None:
    name = text.text("mamba_ssm_dtype", "auto")
    if name not in ("auto", "float32", "float16", "bfloat16"):
        raise text.wrong("mamba_ssm_dtype", "float32, float16, bfloat16 or auto", name)
    return None if name == "auto" else name


def _experts(text: Keys, layers: int) -> Experts | None:
    count = next((text.integer(name) for name in _EXPERT_COUNTS if text.has(name)), 0)
    if count == 0:
        return None
    step = text.positive("decoder_sparse_step", 1)
    dense = set(text.integers("mlp_only_layers"))
    sparse = sum(1 for i in range(layers) if i not in dense and (i + 1) % step == 0)
    return Experts(
        count=count,
        active=text.positive("num_experts_per_tok"),
        intermediate_size=text.positive("moe_intermediate_size", text.integer("intermediate_size", 0) or None),
        shared_intermediate_size=text.integer("shared_expert_intermediate_size", 0),
        layers=sparse,
    )


_EXPERT_COUNTS = ("num_experts", "n_routed_experts", "num_local_experts")


def _dense_width(text: Keys, experts: Experts | None, layers: int) -> int:
    if experts is not None and experts.layers == layers:
        return text.integer("intermediate_size", 0)
    return text.positive("intermediate_size")


def _indexer(text: Keys) -> Indexer:
    return Indexer(
        query_heads=text.positive("indexer_n_heads"),
        key_heads=text.positive("indexer_kv_heads"),
        head_dim=text.positive("indexer_head_dim"),
        budget=text.positive("indexer_budget"),
        compress_ratio=text.positive("indexer_compress_ratio"),
    )


def _hyper_connections(text: Keys) -> HyperConnections | None:
    if not text.has("hc_count"):
        return None
    return HyperConnections(streams=text.positive("hc_count"), rank=text.positive("hc_lowrank"))


def _per_layer_embedding(text: Keys) -> PerLayerEmbedding | None:
    layers = len(set(text.integers("ple_layer_ids")))
    if layers == 0:
        return None
    return PerLayerEmbedding(
        layers=layers,
        embed_dim=text.positive("ple_embed_dim", text.positive("hidden_size")),
        ngram_size=text.positive("ngram_size", at_most=100),
        heads_per_ngram=text.positive("heads_per_ngram", at_most=100),
        vocabulary_base=text.positive("ngram_vocab_size_base", at_most=2**40),
        vocabulary_divisor=text.positive("make_ngram_vocab_size_divisible_by", 128),
        conv_kernel=text.positive("ple_conv_kernel_size"),
    )


def _vision(outer: Keys) -> tuple[Vision | None, tuple[str, ...]]:
    """Read the vision encoder; its shapes only add memory, so one that is spelled differently is named, not refused."""
    keys = outer.child("vision_config")
    if keys is None:
        return None, ()
    heads = "num_heads" if keys.has("num_heads") else "num_attention_heads"
    depth = "depth" if keys.has("depth") else "num_hidden_layers"
    needed = (depth, "hidden_size", "intermediate_size", heads)
    if not all(keys.has(name) for name in needed):
        return None, ("vision_config",)
    layers, hidden, intermediate, head_count = (keys.positive(name) for name in needed)
    out = keys.positive("out_hidden_size", hidden)
    return Vision(layers, hidden, intermediate, head_count, out), ()
