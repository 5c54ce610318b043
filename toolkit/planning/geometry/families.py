"""Which architectures this reader knows, and how each spells its layers in config.json.

Sources: the configuration classes of transformers 5.19 and the model files of vLLM 0.32 (which decides what a layer
keeps for a request, whatever the configuration's author had in mind).
"""

from __future__ import annotations

from enum import Enum

from toolkit.counted import counted
from toolkit.planning.geometry.keys import Keys
from toolkit.planning.geometry.model import LayerKind


class Family(Enum):
    """How layer kinds follow from a configuration."""

    by_layer = "by_layer"
    """`layer_types` decides each layer; without it a `sliding_window` holds for all."""
    all_alike = "all_alike"
    """Layers slide only if all do: the engine keeps every token where `layer_types` are mixed."""
    hybrid = "hybrid"
    """Recurrent layers, and full attention at every `full_attention_interval`-th."""
    sparse = "sparse"
    """As hybrid; where the configuration has an indexer, attention is sparse."""
    draft = "draft"
    """A DFlash block draft: `dflash_config` may make its layers slide."""


_FAMILIES = {
    Family.by_layer: ("LlamaForCausalLM", "MistralForCausalLM", "GptOssForCausalLM", "Gemma3ForCausalLM"),
    Family.all_alike: (
        "Qwen2ForCausalLM", "Qwen3ForCausalLM", "Qwen2MoeForCausalLM", "Qwen3MoeForCausalLM",
        "Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration",
    ),
    Family.hybrid: (
        "Qwen3NextForCausalLM", "Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM",
        "Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration",
    ),
    Family.sparse: ("Qwen4ExpForCausalLM", "Qwen4ExpForConditionalGeneration"),
    Family.draft: ("DFlashDraftModel", "DFlash2DraftModel"),
}  # fmt: skip
FAMILY_OF = {name: family for family, names in _FAMILIES.items() for name in names}

_WORDS = {
    "full_attention": LayerKind.full,
    "attention": LayerKind.full,
    "sliding_attention": LayerKind.sliding,
    "linear_attention": LayerKind.recurrent,
    "indexed_attention": LayerKind.sparse,
    "qwen_sparse_attention": LayerKind.sparse,
}
MOST_LAYERS = 10_000
"""Tens of times those of any model; each is planned by itself."""


def layer_kinds(text: Keys, family: Family) -> tuple[tuple[LayerKind, ...], tuple[str, ...]]:
    """Return the kind of every layer, and the layer types that are not understood.

    Raises ConfigurationError if `layer_types` does not name every layer, and for more layers than any model has.
    """
    count = text.positive("num_hidden_layers", at_most=MOST_LAYERS)
    words = text.texts("layer_types") or _words_without_list(text, family, count)
    if len(words) != count:
        raise text.wrong("layer_types", f"a list of {counted(count, 'name')}", counted(len(words), "name"))
    kinds = tuple(_WORDS.get(word, LayerKind.unknown) for word in words)
    strange = tuple(f"layer type '{word}'" for word in dict.fromkeys(words) if word not in _WORDS)
    return tuple(_as_served(kinds, text, family)), strange


def sliding_window(text: Keys, family: Family) -> int | None:
    """Return the tokens that sliding layers see; None where the configuration has no window in use."""
    if family is Family.all_alike and not text.boolean("use_sliding_window", False):
        return None
    if family is Family.draft:
        dflash = text.child("dflash_config")
        if dflash is not None and dflash.has("swa_window_size"):
            return dflash.positive("swa_window_size")
    return text.optional_integer("sliding_window") or None


def _words_without_list(text: Keys, family: Family, count: int) -> tuple[str, ...]:
    if family in (Family.hybrid, Family.sparse):
        interval = text.positive("full_attention_interval", 4)
        return tuple("linear_attention" if (i + 1) % interval else "full_attention" for i in range(count))
    if family is Family.draft:
        dflash = text.child("dflash_config")
        slides = dflash is not None and dflash.boolean("use_swa", False)
        return ("sliding_attention" if slides else "full_attention",) * count
    window = sliding_window(text, family)
    if window is not None and text.has("sliding_window_pattern"):
        pattern = text.positive("sliding_window_pattern")
        return tuple("sliding_attention" if (i + 1) % pattern else "full_attention" for i in range(count))
    if window is not None and family is Family.all_alike:
        first = text.integer("max_window_layers", 28)
        return tuple("full_attention" if i < first else "sliding_attention" for i in range(count))
    return ("sliding_attention" if window is not None else "full_attention",) * count


def _as_served(kinds: tuple[LayerKind, ...], text: Keys, family: Family) -> tuple[LayerKind, ...]:
    """Put right the layers for which the engine keeps something else than the configuration says."""
    if family is Family.sparse and text.has("indexer_n_heads"):
        return tuple(LayerKind.sparse if kind is LayerKind.full else kind for kind in kinds)
    if family is Family.all_alike and len(set(kinds)) > 1:
        return tuple(LayerKind.full if kind is LayerKind.sliding else kind for kind in kinds)
    dflash = text.child("dflash_config") if family is Family.draft else None
    if dflash is not None and dflash.boolean("use_swa", False) and LayerKind.sliding not in kinds:
        return (LayerKind.sliding,) * len(kinds)
    return kinds
