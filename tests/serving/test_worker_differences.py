"""What workers report beside what the plan expects: equal says nothing, and each difference has its finding."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from toolkit.planning.expected import ExpectedWorkers
from toolkit.planning.graphs import Graphs
from toolkit.planning.plan import Severity
from toolkit.planning.worker_report import AttentionLayer, Runtime, WorkerReport
from toolkit.serving.worker_differences import differences
from toolkit.serving.worker_environment import environment_findings

PLANNED = ExpectedWorkers(
    engine="v100",
    platform="toolkit.plugin.platform.v100.V100Platform",
    imports=None,
    count=2,
    versions={"python": "3.11.7", "torch": "2.10.0", "vllm": "0.32.0"},
    graphs=Graphs("VLLM_COMPILE", "FULL_AND_PIECEWISE", (1, 2, 4, 8)),
    kv_blocks=100,
    switches={"compact_sampling": True},
    kv_dtype="fp8_e4m3",
    attention="VoltaTritonImpl",
)
RUNTIME = Runtime(
    platform="toolkit.plugin.platform.v100.V100Platform",
    device="Tesla V100-SXM2-32GB",
    capability="7.0",
    operators=(),
    native_libraries=(),
    compilation="VLLM_COMPILE",
    graphs="FULL_AND_PIECEWISE",
    capture_sizes=(1, 2, 4, 8),
    kv_blocks=100,
)


def layer(name="model.layers.0.self_attn.attn", **changes):
    made = AttentionLayer(name, "VoltaTritonImpl", "fp8_e4m3", (1.0,), (1.0,), 1.0, 1.0)
    return replace(made, **changes)


def report(rank, **changes):
    versions = {"python": "3.11.7", "torch": "2.10.0+cu128", "vllm": "0.32.0", "toolkit": "0.1.0"}
    usual = {"switches": {"compact_sampling": True}, "layers": (layer(),), "runtime": RUNTIME}
    return WorkerReport(rank, 2, 1, **{"engine": "v100", "versions": versions, "paths": {}, **usual, **changes})


def found(planned=PLANNED, **changes):
    reports = [report(0, **changes), report(1, **changes)]
    return [(each.rule, each.severity, each.where, each.message) for each in differences(reports, planned)]


def running(**changes):
    return {"runtime": replace(RUNTIME, **changes)}


def versions(**changes):
    return {"versions": {**report(0).versions, **changes}}


REFUSE, WARN = Severity.refuse, Severity.warn
DIFFERENT = [
    ("workers-version", REFUSE, versions(vllm="0.33.0"), "runs vllm 0.33.0, and 0.32.0 was planned"),
    ("workers-version", REFUSE, versions(torch="2.10.1+cu128"), "runs torch 2.10.1+cu128, and 2.10.0 was planned"),
    ("workers-version", REFUSE, versions(python="3.12.1"), "runs python 3.12.1, and 3.11.7 was planned"),
    (
        "workers-version",
        REFUSE,
        {"versions": {"python": "3.11.7", "torch": "2.10.0"}},
        "does not say which vllm it runs, and vllm 0.32.0 was planned",
    ),
    (
        "workers-platform",
        REFUSE,
        running(platform="vllm.platforms.cuda.NvmlCudaPlatform"),
        "runs on the platform vllm.platforms.cuda.NvmlCudaPlatform, not on toolkit.plugin.platform.v100.V100Platform",
    ),
    (
        "workers-platform",
        REFUSE,
        {"runtime": None},
        "runs on the platform that it does not name, not on toolkit.plugin.platform.v100.V100Platform",
    ),
    ("workers-engine", WARN, {"engine": ""}, "was told engine=?, and engine=v100 was planned"),
    (
        "workers-compilation",
        WARN,
        running(compilation="NONE"),
        "has compilation mode NONE, and VLLM_COMPILE was planned",
    ),
    (
        "workers-graphs",
        WARN,
        running(graphs="PIECEWISE"),
        "has CUDA graph mode PIECEWISE, and FULL_AND_PIECEWISE was planned",
    ),
    (
        "workers-capture-sizes",
        WARN,
        running(capture_sizes=(1, 2)),
        "has CUDA graphs of 1, 2 tokens, and 1, 2, 4, 8 tokens was planned",
    ),
    (
        "workers-capture-sizes",
        WARN,
        running(capture_sizes=()),
        "has CUDA graphs of no tokens, and 1, 2, 4, 8 tokens was planned",
    ),
    ("workers-kv-blocks", WARN, running(kv_blocks=98), "has 98 KV blocks, and 100 were planned"),
    ("workers-kv-blocks", WARN, running(kv_blocks=None), "does not say its KV blocks, and 100 were planned"),
    (
        "workers-switches",
        WARN,
        {"switches": {"compact_sampling": False}},
        "has switch compact_sampling at False, and True was planned",
    ),
    (
        "workers-attention",
        WARN,
        {"layers": (layer(backend="TritonAttentionImpl"),)},
        "model.layers.0.self_attn.attn: attention is TritonAttentionImpl, and VoltaTritonImpl was planned",
    ),
    (
        "workers-kv-dtype",
        WARN,
        {"layers": (layer(kv_dtype="auto"),)},
        "model.layers.0.self_attn.attn: KV dtype is auto, and fp8_e4m3 was planned",
    ),
]


def test_what_is_as_planned_says_nothing():
    assert found() == []
    assert found(**running(kv_blocks=101)) == []  # the null block


@pytest.mark.parametrize(("rule", "severity", "changes", "message"), DIFFERENT, ids=lambda value: str(value)[:40])
def test_each_difference_is_one_finding_of_all_workers_that_share_it(rule, severity, changes, message):
    assert found(**changes) == [(rule, severity, "rank 0, 1", message)]


def test_a_difference_of_one_worker_names_it():
    reports = [report(0), report(1, **versions(torch="2.11.0"))]
    (one,) = differences(reports, PLANNED)
    assert (one.rule, one.where) == ("workers-version", "rank 1")
    assert one.fix


def test_more_workers_than_ranks_are_one_finding():
    (one,) = differences([report(0), report(1), report(2)], PLANNED)
    assert (one.rule, one.severity, one.where) == ("workers-count", REFUSE, "workers")
    assert one.message == "3 workers reported, and 2 were planned, one for each rank"


@pytest.mark.parametrize("reports", [[], [report(0)], [report(1), report(1)]])
def test_a_silent_rank_is_no_difference_but_missing(reports):
    assert differences(reports, PLANNED) == ()
    missing = environment_findings(reports, PLANNED, {}, Path("/run/workers"))
    assert {each.where for each in missing if each.rule == "workers-missing"} == {"rank 0", "rank 1"} - {
        f"rank {each.rank}" for each in reports
    }


def test_a_switch_that_only_one_side_knows_is_a_difference():
    assert found(switches={"compact_sampling": True, "fused_norm": True})[0][3] == (
        "has switch fused_norm at True, and None was planned"
    )
    assert found(switches={})[0][3] == "has switch compact_sampling at None, and True was planned"


def test_many_layers_are_named_by_a_few():
    odd = tuple(layer(f"model.layers.{n}.self_attn.attn", kv_dtype="auto") for n in range(9))
    ((rule, _, _, message),) = found(layers=odd)
    assert rule == "workers-kv-dtype"
    assert "model.layers.2.self_attn.attn and 6 more: KV dtype is auto" in message


@pytest.mark.parametrize("name", ["draft_model.model.layers.0.self_attn.attn", "mtp.layers.0.self_attn.attn"])
def test_a_drafts_layers_have_their_own(name):
    assert found(layers=(layer(), layer(name, kv_dtype="auto", backend="Other"))) == []


def test_what_the_plan_does_not_know_is_not_compared():
    nothing = ExpectedWorkers("v100", PLANNED.platform, None)
    assert found(nothing, **running(kv_blocks=3, graphs="NONE"), switches={}, versions={}, layers=()) == []
