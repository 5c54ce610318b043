"""CUDA graphs: which sizes are captured is vLLM's own answer; what they take is what was published."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_cases import DENSE, GIB, dflash2, geometry, purposes

from toolkit.config.schema.engine import EngineName
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.planning.geometry import read_geometry
from toolkit.planning.geometry.shards import rank_of
from toolkit.planning.graphs import capture_sizes
from toolkit.planning.memory import plan_budget
from toolkit.planning.memory.graphs import FIRST_BYTES, LAYER_BYTES, MARGIN, decode_sizes, graphs_term

LLAMA_1B = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "vocab_size": 128256,
}
ARGUMENTS = ([], ["--max-cudagraph-capture-size=96"], ["--cudagraph-capture-sizes", "1", "64", "9000", "-x"])


def config(sequences: int, tokens: int, drafts: int, arguments: list[str]) -> DeploymentConfig:
    made = DeploymentConfig()
    made.engine.name, made.engine.compile, made.engine.extra_arguments = EngineName.v100, True, arguments
    made.limits.max_num_seqs, made.limits.max_num_batched_tokens = sequences, tokens
    made.speculative.method, made.speculative.tokens = "mtp" if drafts else "none", drafts
    return made


def upstreams(made: DeploymentConfig) -> tuple[int, ...]:
    """What vLLM's own function chooses, on an object that has all that it reads."""
    from vllm.config import CUDAGraphMode, VllmConfig

    told = {"most": None, "sizes": None}
    if "--cudagraph-capture-sizes" in made.engine.extra_arguments:
        told["sizes"] = [1, 64, 9000]
    elif made.engine.extra_arguments:
        told["most"] = 96
    compilation = SimpleNamespace(
        cudagraph_mode=CUDAGraphMode.FULL_AND_PIECEWISE,
        max_cudagraph_capture_size=told["most"],
        cudagraph_capture_sizes=told["sizes"],
        post_init_cudagraph_sizes=lambda: None,
    )
    asked = SimpleNamespace(
        model_config=SimpleNamespace(enforce_eager=False),
        compilation_config=compilation,
        uniform_decode_query_len=1 + made.speculative.tokens,
        num_speculative_tokens=made.speculative.tokens,
        performance_mode="balanced",
        speculative_config=None,
        scheduler_config=SimpleNamespace(
            max_num_seqs=made.limits.max_num_seqs, max_num_batched_tokens=made.limits.max_num_batched_tokens
        ),
    )
    VllmConfig._set_cudagraph_sizes(asked)
    return tuple(compilation.cudagraph_capture_sizes)


@settings(max_examples=150, deadline=None)
@given(
    sequences=st.integers(1, 700),
    tokens=st.integers(1, 9000) | st.sampled_from([256, 512, 2048, 8192]),
    drafts=st.sampled_from([0, 1, 3, 7]),
    arguments=st.sampled_from(ARGUMENTS),
)
def test_the_captured_sizes_are_vllms(sequences: int, tokens: int, drafts: int, arguments: list[str]) -> None:
    pytest.importorskip("vllm")
    made = config(sequences, tokens, drafts, arguments)
    assert capture_sizes(made) == upstreams(made)


def test_full_graphs_are_those_of_uniform_steps() -> None:
    made = config(4, 8192, 3, [])
    assert capture_sizes(made) == (1, 2, 4, 8, 16, 24, 32)
    assert decode_sizes(made, capture_sizes(made)) == (4, 8, 16)
    made = config(64, 2048, 0, [])
    assert decode_sizes(made, capture_sizes(made)) == (1, 2, 4, *range(8, 65, 8))


def test_published_graphs_of_16_layers_took_what_the_term_says() -> None:
    """Llama-3.2-1B: 35 full graphs up to 256 rows, 0.21 GiB to two digits (vllm pull request 11349)."""
    model = read_geometry(LLAMA_1B)
    made = config(256, 8192, 0, ["--max-cudagraph-capture-size=256"])
    sizes = capture_sizes(made)
    assert len(sizes) == 35
    assert len(decode_sizes(made, sizes)) == 35
    full = FIRST_BYTES + 35 * 16 * LAYER_BYTES
    assert full / GIB < 0.21 < full * (1 + MARGIN) / GIB
    term = graphs_term(made, model, rank_of(model, 1), 2)
    assert full + 35 * 16 * LAYER_BYTES < term.bytes, "and as many piecewise ones, and the largest one's tensors"
    assert term.margin == MARGIN


def test_published_graphs_of_64_layers_took_what_the_term_says() -> None:
    """A hybrid of 64 layers: a full graph takes about 24 MiB (vllm issue 50780)."""
    model = geometry(DENSE)
    one, two = (config(sequences, 8192, 0, [f"--max-cudagraph-capture-size={sequences}"]) for sequences in (1, 2))
    rank = rank_of(model, 1)
    few, more = (graphs_term(made, model, rank, 2) for made in (one, two))
    assert (more.bytes - few.bytes) / 2 / 2**20 < 24 < (more.most - few.most) / 2 / 2**20, "one more of each kind"


def test_graphs_are_counted_where_they_are_captured() -> None:
    made = dflash2()
    assert "CUDA graphs" not in purposes(plan_budget(made, geometry(DENSE)))
    made.engine.compile = True
    term = purposes(plan_budget(made, geometry(DENSE)))["CUDA graphs"]
    made.limits.max_num_seqs = 64
    assert term.bytes < purposes(plan_budget(made, geometry(DENSE)))["CUDA graphs"].bytes
    made.engine.extra_arguments = ["--cudagraph-capture-sizes", "1", "2"]
    assert term.bytes > purposes(plan_budget(made, geometry(DENSE)))["CUDA graphs"].bytes
