"""The toolkit's formulas against the engine's own functions, over random models: equal to the last block and token."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("vllm")

from engine_oracle import Case, answer, pages

from toolkit.config.schema.engine import EngineName
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.planning.capacity import plan_pool
from toolkit.planning.capacity.layers import layer_caches, plan_layers
from toolkit.planning.geometry import read_geometry

HEAD_DIMS = (64, 96, 128, 256)
DRAFTS = {"dflash": "DFlash2DraftModel", "draft_model": "LlamaForCausalLM"}
WORDS = {"auto": "float16", "fp8_e4m3": "fp8_e4m3", "fp8_e5m2": "fp8_e5m2"}


def attention_keys(draw: st.DrawFn) -> dict[str, Any]:
    kv_heads = draw(st.sampled_from((1, 2, 4, 8)))
    heads = kv_heads * draw(st.sampled_from((1, 2, 3, 4)))
    return {
        "num_attention_heads": heads * (8 // kv_heads),  # divides over up to 8 ranks
        "num_key_value_heads": kv_heads,
        "head_dim": draw(st.sampled_from(HEAD_DIMS)),
        "hidden_size": draw(st.sampled_from((256, 1024, 2560))),
        "intermediate_size": 1024,
        "vocab_size": 1024,
    }


def recurrent_keys(draw: st.DrawFn) -> dict[str, Any]:
    keys = draw(st.sampled_from((8, 16)))
    found = {
        "linear_num_key_heads": keys,
        "linear_num_value_heads": keys * draw(st.sampled_from((1, 2, 3))),
        "linear_key_head_dim": draw(st.sampled_from((64, 128))),
        "linear_value_head_dim": draw(st.sampled_from((64, 128))),
        "linear_conv_kernel_dim": draw(st.sampled_from((2, 4))),
    }
    return found | ({"mamba_ssm_dtype": "float32"} if draw(st.booleans()) else {})


def pattern(draw: st.DrawFn, local: str) -> list[str]:
    """Layer types: mostly a repeating pattern, sometimes an irregular one."""
    if draw(st.booleans()):
        interval = draw(st.integers(2, 6))
        count = draw(st.integers(interval, 30))
        return [local if (i + 1) % interval else "full_attention" for i in range(count)]
    words = draw(st.lists(st.sampled_from((local, "full_attention")), min_size=2, max_size=24))
    return [*words, local, "full_attention"]


def sparse_keys(draw: st.DrawFn, layers: list[str]) -> dict[str, Any]:
    embedded = [i + 1 for i, kind in enumerate(layers) if kind == "linear_attention"]
    return {
        "indexer_n_heads": 4,
        "indexer_kv_heads": 1,
        "indexer_head_dim": draw(st.sampled_from((64, 128))),
        "indexer_budget": 2048,
        "indexer_compress_ratio": draw(st.sampled_from((4, 8))),
        "hc_count": 4,
        "hc_lowrank": 32,
        "ple_layer_ids": embedded[: draw(st.integers(0, 3))],
        "ple_embed_dim": 256,
        "ple_conv_kernel_size": 4,
        "ngram_size": 3,
        "heads_per_ngram": 8,
        "ngram_vocab_size_base": 1000,
    }


@st.composite
def models(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """An architecture and its text configuration, layer types always spelled out for the oracle."""
    family = draw(st.sampled_from(("dense", "sliding", "interleaved", "hybrid", "sparse")))
    text = attention_keys(draw) | {"sliding_window": None}
    if family == "dense":
        return "LlamaForCausalLM", text | {"layer_types": ["full_attention"] * draw(st.integers(1, 32))}
    if family in ("sliding", "interleaved"):
        layers = ["sliding_attention"] * draw(st.integers(1, 32))
        layers = pattern(draw, "sliding_attention") if family == "interleaved" else layers
        return "LlamaForCausalLM", text | {"layer_types": layers, "sliding_window": draw(st.integers(1, 5000))}
    layers = pattern(draw, "linear_attention")
    text |= recurrent_keys(draw) | {"layer_types": layers, "mtp_num_hidden_layers": draw(st.integers(1, 2))}
    if family == "hybrid":
        return "Qwen3_5ForCausalLM", text
    return "Qwen4ExpForCausalLM", text | sparse_keys(draw, layers)


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, Case]:
    architecture, text = draw(models())
    sparse, sliding = "indexer_n_heads" in text, text["sliding_window"] is not None
    engine = "v100" if sparse else draw(st.sampled_from(("cpu", "v100")))
    methods = ["none", "ngram"]
    methods += ["mtp"] if "mtp_num_hidden_layers" in text else []
    methods += ["dflash", "draft_model"] if engine == "v100" and not sparse else []
    method = draw(st.sampled_from(methods))
    odd_blocks = st.nothing() if sparse else st.integers(1, 500)
    return architecture, Case(
        text=text,
        engine=engine,
        dtype=draw(st.sampled_from(("float16", "float32") if engine == "cpu" else ("float16",))),
        cache_dtype=draw(st.sampled_from(tuple(WORDS))),
        tensor_parallel=draw(st.sampled_from((1, 2, 4, 8))),
        dcp=draw(st.sampled_from((1, 2))) if engine == "v100" and not (sparse or sliding) else 1,
        max_model_len=draw(st.integers(1, 300_000)),
        max_num_batched_tokens=draw(st.integers(1, 16384)),
        block_size=draw(st.none() | st.integers(1, 64).map(lambda n: n * 32) | odd_blocks),
        prefix_caching=draw(st.booleans()),
        method=method,
        draft_tokens=0 if method == "none" else draw(st.integers(1, 8)),
        draft=draw(drafts(text)) if method in ("dflash", "draft_model") else None,
    )


@st.composite
def drafts(draw: st.DrawFn, target: dict[str, Any]) -> dict[str, Any]:
    own = attention_keys(draw)
    shapes = ("num_attention_heads", "num_key_value_heads", "head_dim")
    own |= {name: target[name] for name in shapes} if draw(st.booleans()) else {}
    words = st.lists(st.sampled_from(("sliding_attention", "full_attention")), min_size=1, max_size=6)
    return own | {"layer_types": draw(words), "sliding_window": draw(st.integers(1, 5000))}


def configuration(case: Case) -> DeploymentConfig:
    config = DeploymentConfig()
    config.engine.name, config.engine.dtype = EngineName[case.engine], case.dtype
    config.kv.dtype, config.dcp.size = WORDS[case.cache_dtype], case.dcp
    config.speculative.method = {"dflash": "dflash2"}.get(case.method, case.method)
    config.speculative.tokens = case.draft_tokens
    limits = config.limits
    limits.max_model_len, limits.max_num_batched_tokens = case.max_model_len, case.max_num_batched_tokens
    limits.tensor_parallel, limits.block_size = case.tensor_parallel, case.block_size
    limits.prefix_caching = case.prefix_caching
    return config


def geometry(architecture: str, text: dict[str, Any]) -> Any:
    return read_geometry({"architectures": [architecture], "num_hidden_layers": len(text["layer_types"])} | text)


@given(cases(), st.floats(1.0, 50.0), st.integers(0, 4096))
@settings(max_examples=700, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_equal_to_the_engine(drawn: tuple[str, Case], times: float, odd_bytes: int) -> None:
    architecture, case = drawn
    draft = geometry(DRAFTS[case.method], case.draft) if case.draft else None
    pool = plan_pool(configuration(case), geometry(architecture, case.text), draft)
    memory = int(pool.smallest_memory * times) + odd_bytes
    engine, ours = answer(case, memory), pool.capacity(memory)
    assert ours.bytes_per_block == engine.bytes_per_block
    assert ours.blocks == engine.blocks
    assert len(pool.demands) == engine.groups
    assert ours.concurrency == engine.concurrency
    assert ours.tokens == engine.tokens
    assert ours.block_tokens == engine.block_size * case.dcp


@given(cases())
@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_every_layer_has_the_engines_block_and_page(drawn: tuple[str, Case]) -> None:
    architecture, case = drawn
    draft = geometry(DRAFTS[case.method], case.draft) if case.draft else None
    config = configuration(case)
    caches = layer_caches(config, plan_layers(config, geometry(architecture, case.text)), draft)
    assert sorted((cache.block_tokens, cache.page_bytes) for cache in caches.values()) == pages(case)


@given(cases())
@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_the_smallest_memory_is_where_the_engine_starts(drawn: tuple[str, Case]) -> None:
    architecture, case = drawn
    draft = geometry(DRAFTS[case.method], case.draft) if case.draft else None
    pool = plan_pool(configuration(case), geometry(architecture, case.text), draft)
    assert answer(case, pool.smallest_memory).blocks == pool.blocks_per_request + 1
    with pytest.raises(ValueError, match=r"at least one request|No available memory"):
        answer(case, pool.smallest_memory - 1)
