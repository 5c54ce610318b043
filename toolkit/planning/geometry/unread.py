"""Keys of a config.json that change shapes or caches and that the reader made nothing of.

A key counts by its name, so that one which the next model brings is noticed before anyone has heard of it. Numbers,
lists, objects and true count; texts and fractions are no sizes, and false, null and 0 turn something off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from toolkit.planning.geometry.keys import Keys

_CACHE = re.compile(
    r"lora_rank|window|sliding|chunk|sink|compress|latent|kv_shared|shared_kv|cross_attention|mamba|ssm|conv|state"
    r"|recurren|linear_|lightning|rwkv|retention|hybrid|layer_types|block_types|layers_block_type|layer_pattern"
    r"|layer_period|layer_offset|attn_layer|attention_layer|attention_type|attn_type|interval|global_att|local_att"
    r"|full_att|index|_stride|block_configs|head_dim|heads|n_head|kv_channels|key_length|value_length|per_layer_config"
    r"|(^|_)attn_config|attention_config|ssm_cfg|^n_layer|num_layers"
)
"""What a layer keeps for a request, and how many layers keep it."""
_SHAPES = re.compile(
    r"expert|moe_|dense_replace|shared_|_layers$|_dim$|_size$|_rank$|intermediate|ffn_|d_model|d_ff|adapter|nextn|mtp"
    r"|embed_|_config$"
)
"""What else takes memory."""
_NO_SIZES = re.compile(
    r"token|(^|use_|no_|m)rope|label|dropout|^output_|^return_|^use_cache|^tie_|_bias$|_coef|_norm|norm_|scaling|^chunk_size_feed"
    r"|^encoder_|^max_|^use_sliding_window$|no_repeat|initializer|top_k|quantization_config|compression_config"
    r"|^problem_type|^number_of_conv_states|split_ngram|beam"
)
"""Names of neither: what does not change sizes, or repeats another key."""
_BY_LAYER_TYPES = ("sliding_window_pattern", "_sliding_window_pattern", "full_attention_interval", "max_window_layers")
"""Rules for layers' kinds, which `layer_types` settles where it is there."""
_BY_FAMILY = ("sliding_window", "max_window_layers")
"""What a known architecture reads or leaves alone, as its other keys say."""


def unread_cache_keys(keys: Keys, known: bool) -> Iterator[str]:
    """Unread keys that may change what a layer keeps for a request; `known` says that the architecture is."""
    settled = (*(_BY_LAYER_TYPES if keys.has("layer_types") else ()), *(_BY_FAMILY if known else ()))
    return (name for name in _sizes(keys) if _CACHE.search(name) and name not in settled)


def unread_shape_keys(keys: Keys) -> Iterator[str]:
    """Unread keys that may change the weights."""
    return (name for name in _sizes(keys) if not _CACHE.search(name) and _SHAPES.search(name))


def unread_parts(outer: Keys) -> Iterator[str]:
    """Unread parts of a model beside its language model, such as an encoder for sound."""
    return (name for name in _sizes(outer) if name.endswith("_config") and isinstance(outer.data[name], Mapping))


def _sizes(keys: Keys) -> Iterator[str]:
    for name, value in keys.data.items():
        sized = bool(value) and isinstance(value, bool | int | list | tuple | Mapping)
        if sized and name not in keys.read and not _NO_SIZES.search(name):
            yield name
