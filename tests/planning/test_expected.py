"""What a plan expects of its workers, from configuration and facts alone."""

from __future__ import annotations

from dataclasses import replace

import cases
import pytest

from toolkit import __version__
from toolkit.planning.expected import expected_workers
from toolkit.planning.graphs import Graphs, capture_sizes, expected_graphs

EXTRA = "engine__extra_arguments"
ALWAYS = {"vllm": "0.32.0", "toolkit": __version__}


def expected(config, machine=None, model=cases.LLAMA):
    facts = machine or cases.machine(interpreter=cases.INTERPRETER)
    return expected_workers(config, facts, {"a": True}, 7, model)


def test_a_v100_deployment():
    made = expected(cases.on_v100(engine__compile=True, kv__dtype="fp8_e4m3"))
    assert (made.engine, made.count, made.kv_blocks, made.switches) == ("v100", 4, 7, {"a": True})
    assert made.platform == "toolkit.plugin.platform.v100.V100Platform"
    assert made.versions == {"python": "3.11.7", "torch": "2.10.0", "triton": "3.6.0", **ALWAYS}
    assert (made.kv_dtype, made.attention) == ("fp8_e4m3", "VoltaTritonImpl")
    assert (made.graphs.compilation, made.graphs.mode) == ("VLLM_COMPILE", "FULL_AND_PIECEWISE")
    assert made.imports.packages == ("/engine/site",)


@pytest.mark.parametrize(
    ("kv", "flags", "attention"),
    [
        ("float16", cases.AVX512, "CpuRoundedAttentionImpl"),
        ("float16", frozenset(), "CpuFp8AttentionImpl"),
        ("fp8_e4m3", cases.AVX512, "CpuRoundedAttentionImpl"),
        ("fp8_e4m3", frozenset(), "CpuFp8AttentionImpl"),
    ],
)
def test_a_cpu_deployment(kv, flags, attention):
    machine = cases.machine(interpreter=cases.INTERPRETER, cpu_flags=flags)
    made = expected(cases.config(kv__dtype=kv), machine)
    assert (made.platform, made.attention) == ("vllm.platforms.cpu.CpuPlatform", attention)
    assert made.graphs == Graphs("NONE", "NONE", ())
    assert "triton" not in made.versions


def test_local_parts_of_versions_are_left_out():
    local = replace(cases.INTERPRETER, versions={"torch": "2.13.0+cpu"})
    assert expected(cases.config(), cases.machine(interpreter=local)).versions["torch"] == "2.13.0"


def test_without_the_interpreter_only_vllm_is_known_and_the_reason_is_kept():
    made = expected(cases.config(), cases.machine(unread={"interpreter": "it is silent"}))
    assert (made.versions, made.imports, made.silence) == (ALWAYS, None, "it is silent")


@pytest.mark.parametrize(
    ("argument", "unknown"),
    [
        ("--pipeline-parallel-size=2", "count"),
        ("--pipeline_parallel_size=2", "count"),
        ("-pp", "count"),
        ("-n2", "count"),
        ("--attention-backend=X", "attention"),
        ("--attention_backend=X", "attention"),
    ],
)
def test_what_appended_arguments_decide_is_left_out(argument, unknown):
    assert getattr(expected(cases.config(**{EXTRA: [argument]})), unknown) is None
    assert getattr(expected(cases.config()), unknown) is not None


def test_latent_attention_has_classes_of_its_own():
    assert expected(cases.on_v100(), model={**cases.LLAMA, "kv_lora_rank": 512}).attention is None
    assert expected(cases.on_v100(), model={"text_config": {"kv_lora_rank": 512}}).attention is None


@pytest.mark.parametrize(
    "argument",
    ["-O3", "--compilation-config={}", "-cc.mode=0", "--cudagraph-capture-sizes", "--cudagraph_capture_sizes"],
)
def test_graphs_that_arguments_decide_are_left_out(argument):
    assert expected_graphs(cases.config(**{EXTRA: [argument]})) == Graphs()


def test_drafts_leave_the_sizes_open():
    drafting = cases.on_v100(engine__compile=True, speculative__method="mtp", speculative__tokens=3)
    assert expected_graphs(drafting) == Graphs("VLLM_COMPILE", "FULL_AND_PIECEWISE", None)


def test_a_compiled_cpu_engine_captures_nothing():
    assert expected_graphs(cases.config(engine__compile=True)) == Graphs("DYNAMO_TRACE_ONCE", "NONE", ())


@pytest.mark.parametrize(
    ("seqs", "tokens", "sizes"),
    [
        (1, 2048, (1, 2)),
        (3, 2048, (1, 2, 3, 4)),
        (8, 2048, (1, 2, 4, 8, 16)),
        (48, 20, (1, 2, 4, 8, 16, 20)),
        (300, 8192, (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16), 300)),
        (1024, 8192, (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16))),
    ],
)
def test_captured_sizes_by_upstreams_rule(seqs, tokens, sizes):
    made = cases.on_v100(limits__max_num_seqs=seqs, limits__max_num_batched_tokens=tokens)
    assert capture_sizes(made) == tuple(sorted(sizes))
