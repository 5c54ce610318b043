"""Targets are met with the fewest bytes, everywhere in the plan, or refused with a reason."""

import cases
import pytest

from toolkit.config.schema.engine import EngineName
from toolkit.planning.fit import fit, of_size
from toolkit.planning.make import make_plan
from toolkit.planning.plan import Plan, Severity

GIB = 2**30


def plan(config) -> Plan:
    return make_plan(config, "", cases.facts(), cases.gpu_machine())


def told(made: Plan) -> int:
    return int(made.argv[made.argv.index("--kv-cache-memory-bytes") + 1])


def found(made: Plan, rule: str) -> list:
    return [finding for finding in made.findings if finding.rule == rule]


@pytest.mark.parametrize("engine", [EngineName.cpu, EngineName.v100])
@pytest.mark.parametrize("tokens", [4113, 5000, 100_000, 1_234_567])
def test_tokens_are_met_with_the_fewest_bytes(engine, tokens):
    made = plan(cases.config(engine__name=engine, limits__for_tokens=tokens))
    assert made.capacity.tokens >= tokens
    assert (
        told(made)
        == made.memory["KV cache and recurrent state"]
        == made.capacity.blocks * made.capacity.bytes_per_block
    )
    fewer = plan(cases.config(engine__name=engine, limits__kv_cache_memory_bytes=told(made) - 1))
    assert fewer.capacity.tokens < tokens
    same = plan(cases.config(engine__name=engine, limits__kv_cache_memory_bytes=told(made)))
    assert same.capacity == made.capacity


@pytest.mark.parametrize("requests", [1.01, 2.5, 64.0, 1000.0])
def test_requests_are_met_with_the_fewest_bytes(requests):
    made = plan(cases.on_v100(limits__for_concurrency=requests))
    assert made.capacity.concurrency >= requests
    fewer = plan(cases.on_v100(limits__kv_cache_memory_bytes=told(made) - 1))
    assert fewer.capacity.concurrency < requests
    (said,) = found(made, "cache-target")
    assert f"{told(made):,} bytes" in said.message
    assert f"{made.capacity.tokens:,} tokens" in said.message


def test_of_two_targets_the_larger_counts():
    tokens = plan(cases.on_v100(limits__for_tokens=10**6))
    both = plan(cases.on_v100(limits__for_tokens=10**6, limits__for_concurrency=2.0))
    assert both.capacity == tokens.capacity
    assert found(both, "cache-target")[0].where == "limits.for_tokens"


@pytest.mark.parametrize(
    "target",
    [
        {"limits__for_tokens": 1},
        {"limits__for_tokens": 4095},
        {"limits__for_concurrency": 0.01},
        {"limits__for_concurrency": 1e-300},
        {"limits__for_concurrency": 1.0},
    ],
    ids=str,
)
def test_a_target_of_one_request_or_less_starts_and_says_what_was_taken_instead(target):
    made = plan(cases.on_v100(**target))
    assert made.capacity.blocks == made.capacity.blocks_per_request + 1
    assert not of_size(made)
    (said,) = found(made, "cache-target")
    name, value = next(iter(target.items()))
    least = "the engine starts with (one full request and the null block); that takes"
    begin = f"{name.replace('__', '.')}={value:g} is less than {least} {told(made):,} bytes"
    assert said.message.startswith(begin)
    enough = plan(cases.on_v100(limits__for_concurrency=1.5))
    assert "less than the engine starts with" not in found(enough, "cache-target")[0].message


@pytest.mark.parametrize(
    "target",
    [
        {"limits__for_tokens": 0},
        {"limits__for_tokens": -5},
        {"limits__for_tokens": 10**13},
        {"limits__for_concurrency": 0.0},
        {"limits__for_concurrency": float("nan")},
        {"limits__for_concurrency": float("inf")},
        {"limits__for_concurrency": 1e300},
    ],
    ids=str,
)
def test_a_target_that_means_nothing_is_refused(target):
    made = plan(cases.on_v100(**target))
    (said,) = found(made, "target-out-of-range")
    name = next(iter(target))
    assert (said.severity, said.where) == (Severity.refuse, name.replace("__", "."))
    assert made.capacity is None
    typed = said.fix.removeprefix(f"name one that is, such as limits.{name.removeprefix('limits__')}=")
    mended = plan(cases.on_v100(**{name: float(typed.removesuffix(", or none"))}))
    assert not found(mended, "target-out-of-range")
    assert mended.capacity.tokens


@pytest.mark.parametrize(
    "told_already",
    [
        {"limits__kv_cache_memory_bytes": GIB},
        {"engine__name": EngineName.cpu, "engine__environment": {"VLLM_CPU_KVCACHE_SPACE": "2"}},
    ],
    ids=["bytes", "variable"],
)
def test_bytes_and_a_target_contradict_each_other(told_already):
    made = plan(cases.config(limits__for_tokens=10**5, **told_already))
    assert [said.severity for said in found(made, "target-and-memory")] == [Severity.refuse]


def test_a_target_for_an_unknown_cache_is_refused():
    facts = cases.llama(layer_types=["strange"] * 4)
    made = make_plan(cases.on_v100(limits__for_tokens=10**5), "", facts, cases.gpu_machine())
    assert [said.severity for said in found(made, "capacity-unknown")] == [Severity.refuse]
    made = make_plan(cases.on_v100(), "", facts, cases.gpu_machine())
    assert [said.severity for said in found(made, "capacity-unknown")] == [Severity.warn]


def test_the_rules_see_the_bytes_that_a_target_takes():
    made = make_plan(cases.config(limits__for_tokens=10**9), "", cases.facts(), cases.machine())
    assert found(made, "kv-over-host-memory") != []


def test_a_target_that_does_not_fit_is_lowered_first():
    config = cases.on_v100(hardware__gpu_memory_bytes=16 * GIB, limits__for_concurrency=5000.0)
    proposals = fit(config, plan(config), plan).proposals
    change = proposals[0].changes[0]
    assert change.name == "for_concurrency"
    assert 1 < change.value < 5000
    assert not of_size(proposals[0].plan)
    config = cases.on_v100(hardware__gpu_memory_bytes=16 * GIB, limits__for_tokens=24_000_000)
    assert fit(config, plan(config), plan).proposals[0].changes[0].name == "for_tokens"


def test_profiled_memory_is_bounded_by_what_the_terms_leave():
    made = plan(cases.on_v100(hardware__gpu_memory_bytes=8 * GIB))
    (said,) = found(made, "capacity-estimate")
    share = int(8 * GIB * cases.on_v100().limits.gpu_memory_utilization)
    for room in (share - made.budget.in_share().most(), share - made.budget.in_share().total()):
        exact = plan(cases.on_v100(limits__kv_cache_memory_bytes=room)).capacity
        assert f"{exact.tokens:,}" in said.message
        assert f"{exact.concurrency:.2f}" in said.message
    assert not found(plan(cases.on_v100(limits__for_tokens=5000)), "capacity-estimate")
    assert not found(plan(cases.on_v100()), "capacity-estimate"), "no GPU's size is known"
