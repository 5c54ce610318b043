"""From config.json to shapes: the families that the toolkit plans, and what it says of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from toolkit.errors import ConfigurationError
from toolkit.planning.geometry import LayerKind, read_geometry
from toolkit.planning.geometry.families import FAMILY_OF, Family

CONF = Path(__file__).parents[3] / "conf" / "checkpoint"

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "vocab_size": 49152,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
NEXT = LLAMA | {
    "architectures": ["Qwen3NextForCausalLM"],
    "model_type": "qwen3_next",
    "num_hidden_layers": 48,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "full_attention_interval": 4,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}


def declared(name: str) -> dict[str, Any]:
    return OmegaConf.to_container(OmegaConf.load(CONF / f"{name}.yaml"))["declared"]


def test_dense_llama() -> None:
    geometry = read_geometry(LLAMA)
    assert geometry.layers == (LayerKind.full,) * 30
    assert (geometry.attention.query_heads, geometry.attention.kv_heads, geometry.attention.head_dim) == (9, 3, 64)
    assert geometry.tie_word_embeddings
    assert (geometry.experts, geometry.recurrent, geometry.unknown) == (None, None, ())


def test_every_attention_head_has_its_own_keys_where_the_configuration_names_none() -> None:
    assert read_geometry({**LLAMA, "num_key_value_heads": None}).attention.kv_heads == 9


def test_qwen3_next_is_hybrid_with_experts_and_a_state_in_the_engines_dtype() -> None:
    geometry = read_geometry({**NEXT, "mamba_ssm_dtype": "float32"})
    assert geometry.count(LayerKind.recurrent) == 36
    assert [i for i, kind in enumerate(geometry.layers) if kind is LayerKind.full] == list(range(3, 48, 4))
    assert geometry.recurrent is not None
    assert geometry.recurrent.state_dtype is None
    assert geometry.experts is not None
    assert (geometry.experts.count, geometry.experts.active, geometry.experts.layers) == (512, 10, 48)
    assert geometry.attention.output_gate


def test_qwen3_5_multimodal_is_read_from_its_text_part() -> None:
    config = declared("qwen38_27b_nvfp4")
    vision = {"depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "num_heads": 16, "out_hidden_size": 5120}
    geometry = read_geometry(config | {"vision_config": vision})
    assert (geometry.count(LayerKind.recurrent), geometry.count(LayerKind.full)) == (48, 16)
    assert (geometry.hidden_size, geometry.intermediate_size, geometry.vocab_size) == (5120, 17408, 248320)
    assert geometry.recurrent is not None
    assert geometry.recurrent.state_dtype == "float32"
    assert geometry.vision is not None
    assert (geometry.vision.layers, geometry.vision.out_hidden_size) == (27, 5120)
    assert geometry.mtp_layers == 1
    assert geometry.unknown == ()


def test_the_same_model_as_text_only() -> None:
    config = declared("qwen38_27b_nvfp4")
    text = config["text_config"] | {"architectures": ["Qwen3_5ForCausalLM"]}
    assert read_geometry(text).layers == read_geometry(config).layers


def test_qwen4exp_has_sparse_layers_streams_an_embedding_and_a_head() -> None:
    geometry = read_geometry(declared("qwen38_flash_next_nvfp4"))
    assert (geometry.count(LayerKind.recurrent), geometry.count(LayerKind.sparse)) == (36, 12)
    assert geometry.indexer is not None
    assert (geometry.indexer.head_dim, geometry.indexer.compress_ratio, geometry.indexer.budget) == (128, 4, 2048)
    assert geometry.hyper_connections is not None
    assert geometry.hyper_connections.streams == 4
    embedding = geometry.per_layer_embedding
    assert embedding is not None
    assert (embedding.layers, embedding.heads, embedding.row_elements) == (1, 16, 160)
    assert geometry.mtp_layers == 1


def test_qwen4exp_without_an_indexer_attends_to_everything() -> None:
    config = declared("qwen38_flash_next_nvfp4")
    text = {key: value for key, value in config["text_config"].items() if not key.startswith("indexer_")}
    geometry = read_geometry(config | {"text_config": text})
    assert (geometry.count(LayerKind.full), geometry.indexer) == (12, None)


DRAFT = LLAMA | {
    "architectures": ["DFlash2DraftModel"],
    "model_type": "qwen3",
    "num_hidden_layers": 5,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "block_size": 8,
    "sliding_window": 4096,
    "dflash_config": {
        "use_swa": True,
        "swa_window_size": 2048,
        "target_layer_ids": [5, 19, 33, 47, 61],
        "selector_top_k": 16,
    },
}


def test_dflash2_draft() -> None:
    geometry = read_geometry(DRAFT)
    assert geometry.layers == (LayerKind.sliding,) * 5
    assert geometry.attention.window == 2048


@pytest.mark.parametrize(
    ("change", "slides"),
    [
        pytest.param({"dflash_config": {}}, [False] * 5, id="neither"),
        pytest.param({"layer_types": ["full_attention"] * 5}, [True] * 5, id="use_swa-overrides-all-full"),
        pytest.param(
            {"layer_types": ["sliding_attention"] * 2 + ["full_attention"] * 3},
            [True, True, False, False, False],
            id="mixed-layer-types-win",
        ),
    ],
)
def test_which_draft_layers_slide(change: dict[str, Any], slides: list[bool]) -> None:
    assert [kind is LayerKind.sliding for kind in read_geometry(DRAFT | change).layers] == slides


@pytest.mark.parametrize(
    ("architecture", "change", "sliding", "window"),
    [
        pytest.param("MistralForCausalLM", {"sliding_window": 4096}, 30, 4096, id="all-layers"),
        pytest.param("MistralForCausalLM", {"sliding_window": None}, 0, None, id="null-window"),
        pytest.param("MistralForCausalLM", {"sliding_window": 0}, 0, None, id="zero-window"),
        pytest.param(
            "LlamaForCausalLM",
            {"sliding_window": 512, "layer_types": ["sliding_attention", "full_attention"] * 15},
            15,
            512,
            id="every-other-layer",
        ),
        pytest.param("Gemma3ForCausalLM", {"sliding_window": 1024, "sliding_window_pattern": 6}, 25, 1024, id="5-to-1"),
        pytest.param("Qwen2ForCausalLM", {"sliding_window": 4096, "use_sliding_window": False}, 0, None, id="not-used"),
        pytest.param(
            "Qwen2ForCausalLM",
            {"sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 0},
            30,
            4096,
            id="all-alike",
        ),
        pytest.param(
            "Qwen3ForCausalLM",
            {"sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 28},
            0,
            None,
            id="the-engine-keeps-mixed-layers-whole",
        ),
    ],
)
def test_sliding_windows(architecture: str, change: dict[str, Any], sliding: int, window: int | None) -> None:
    geometry = read_geometry(LLAMA | {"architectures": [architecture]} | change)
    assert (geometry.count(LayerKind.sliding), geometry.attention.window) == (sliding, window)


def test_sparse_and_dense_feed_forward_layers_beside_each_other() -> None:
    change = {"architectures": ["Qwen3MoeForCausalLM"], "num_experts": 128, "num_experts_per_tok": 8}
    change |= {"moe_intermediate_size": 768, "decoder_sparse_step": 2, "mlp_only_layers": [1]}
    experts = read_geometry(LLAMA | change).experts
    assert experts is not None
    assert (experts.layers, experts.intermediate_size, experts.shared_intermediate_size) == (14, 768, 0)


def test_an_unknown_architecture_is_named_and_what_is_known_of_it_is_used() -> None:
    geometry = read_geometry(LLAMA | {"architectures": ["NovelForCausalLM"]})
    assert geometry.unknown == ("architecture 'NovelForCausalLM'",)
    assert geometry.unknown_cache == ()
    assert geometry.attention.kv_heads == 3


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"layer_types": ["mamba"] * 30}, "layer type 'mamba'"),
        ({"layer_types": ["full_attention"] * 29 + ["retention"]}, "layer type 'retention'"),
        ({"kv_lora_rank": 512}, "key 'kv_lora_rank'"),
        ({"attention_chunk_size": 8192}, "key 'attention_chunk_size'"),
    ],
)
def test_what_decides_the_cache_and_is_not_understood_is_named(change: dict[str, Any], named: str) -> None:
    geometry = read_geometry(LLAMA | change)
    assert geometry.unknown_cache == (named,)
    assert named in geometry.unknown


def test_a_vision_encoder_that_is_spelled_otherwise_is_named() -> None:
    geometry = read_geometry(LLAMA | {"vision_config": {"width": 1024}})
    assert (geometry.vision, geometry.unknown) == (None, ("vision_config",))


@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"])
def test_an_absent_key_is_named(key: str) -> None:
    config = {name: value for name, value in LLAMA.items() if name != key}
    with pytest.raises(ConfigurationError) as caught:
        read_geometry(config)
    assert caught.value.what == f"The model's configuration has no key '{key}'."


@pytest.mark.parametrize(
    ("change", "first_line"),
    [
        (
            {"hidden_size": "576"},
            "The key 'hidden_size' of the model's configuration must be a whole number, zero or more, not '576'.",
        ),
        (
            {"num_hidden_layers": True},
            "The key 'num_hidden_layers' of the model's configuration must be a whole number, zero or more, not True.",
        ),
        (
            {"num_hidden_layers": 10**30},
            f"The key 'num_hidden_layers' of the model's configuration must be 10000 at most, not {10**30}.",
        ),
        (
            {"vocab_size": 0},
            "The key 'vocab_size' of the model's configuration must be a whole number of at least 1, not 0.",
        ),
        (
            {"tie_word_embeddings": "yes"},
            "The key 'tie_word_embeddings' of the model's configuration must be true or false, not 'yes'.",
        ),
        (
            {"layer_types": ["full_attention"] * 3},
            "The key 'layer_types' of the model's configuration must be a list of 30 names, not '3 names'.",
        ),
        (
            {"layer_types": "full_attention"},
            "The key 'layer_types' of the model's configuration must be a list of texts, not 'full_attention'.",
        ),
        (
            {"layer_types": ["sliding_attention"] * 30},
            "The key 'sliding_window' of the model's configuration must be tokens where layers slide, not None.",
        ),
        (
            {"text_config": [1]},
            "The key 'text_config' of the model's configuration must be an object, not [1].",
        ),
    ],
)
def test_a_wrong_type_is_named(change: dict[str, Any], first_line: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_geometry(LLAMA | change)
    assert caught.value.what == first_line


def test_where_a_nested_key_is_missing() -> None:
    config = declared("qwen38_27b_nvfp4")
    del config["text_config"]["linear_num_key_heads"]
    with pytest.raises(ConfigurationError) as caught:
        read_geometry(config)
    assert caught.value.where == "config.json: text_config"


@pytest.mark.parametrize(
    "name", sorted(path.stem for path in CONF.glob("*.yaml") if "declared" in OmegaConf.load(path))
)
def test_every_declared_checkpoint_is_fully_understood(name: str) -> None:
    assert read_geometry(declared(name)).unknown == ()


def test_a_number_that_64_bits_do_not_hold_is_told_in_short():
    with pytest.raises(ConfigurationError) as caught:
        read_geometry({**LLAMA, "hidden_size": 10**400})
    assert "must be 9223372036854775807 at most, not 1000" in caught.value.what
    assert len(caught.value.what) < 300


CACHE_KEYS = {
    "sliding_window_pattern": 4, "attention_sink_size": 4, "use_attention_sinks": True, "q_lora_rank": 1536,
    "qk_rope_head_dim": 64, "linear_num_key_heads": 16, "linear_attn_config": {"kernel": 4}, "conv_L_cache": 3,
    "attn_layer_period": 8, "attn_config": {"kv_n_heads": 8}, "layers_block_type": ["mamba"], "mamba_expand": 2,
    "rwkv_version": 7, "global_attn_every_n_layers": 3, "kv_compression": [4], "n_heads": 8, "index_topk_heads": 64,
}  # fmt: skip
SHAPE_KEYS = {"n_shared_experts": 2, "first_k_dense_replace": 3, "ffn_dim": 100, "audio_config": {"layers": 2}}
NO_SIZES = {
    "hidden_act": "silu", "attention_bias": True, "rope_theta": 10**6, "num_experts": 0, "attention_sinks": False,
    "sliding_window_note": "none", "rms_norm_eps": 1e-6, "max_new_window": None, "return_dict": True,
    "id2label": {"0": "LABEL_0"}, "chunk_size_feed_forward": 2, "router_aux_loss_coef": 1,
}  # fmt: skip


@pytest.mark.parametrize("key", [*CACHE_KEYS, *SHAPE_KEYS])
def test_a_key_that_changes_sizes_and_was_not_read_is_named(key: str) -> None:
    """Of an architecture that is not known, one that changes a cache leaves no capacity to guess."""
    change = {key: {**CACHE_KEYS, **SHAPE_KEYS}[key]}
    known = read_geometry(LLAMA | change)
    assert f"key '{key}'" in known.unknown
    novel = read_geometry(LLAMA | change | {"architectures": ["NovelForCausalLM"]})
    assert novel.unknown == ("architecture 'NovelForCausalLM'", f"key '{key}'")
    assert novel.unknown_cache == ((f"key '{key}'",) if key in CACHE_KEYS else ())


def test_what_is_no_size_or_turns_nothing_on_is_not_named() -> None:
    novel = read_geometry(LLAMA | NO_SIZES | {"architectures": ["NovelForCausalLM"]})
    assert novel.unknown == ("architecture 'NovelForCausalLM'",)


def test_a_part_beside_the_language_model_is_named() -> None:
    outer = {"architectures": ["LlamaForCausalLM"], "text_config": LLAMA, "audio_config": {"layers": 2}}
    assert read_geometry(outer).unknown == ("key 'audio_config'",)


@pytest.mark.parametrize("architecture", sorted(name for name in FAMILY_OF if FAMILY_OF[name] is not Family.sparse))
def test_no_default_of_a_known_architecture_is_named(architecture: str) -> None:
    """Its configuration class writes these keys into every published config.json."""
    mapping = pytest.importorskip("transformers").CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as NAMES

    kind = next((kind for kind, name in NAMES.items() if name == architecture), None)
    if kind is None:
        pytest.skip("transformers has no text model of that name")
    defaults = json.loads(json.dumps(mapping[kind]().to_dict(), default=str))
    assert read_geometry(defaults | {"architectures": [architecture]}).unknown == ()
