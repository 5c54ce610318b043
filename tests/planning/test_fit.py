"""Proposals fit when they are planned, cost as little as they can, and their absence is told."""

from dataclasses import replace

import cases
import pytest

from toolkit.display.fit_text import render
from toolkit.planning.fit import SIZE_RULES, Fit, fit, of_size, with_changes
from toolkit.planning.levers import LEVERS
from toolkit.planning.make import make_plan
from toolkit.planning.plan import Plan, Severity

GIB = 2**30
HEAVY = cases.facts(config={**cases.LLAMA, "num_key_value_heads": 2}, weight_bytes=40 * GIB)
"""Ten GiB of weights on each of four ranks: on a GPU that these hardly fit into, a tenth is room enough for what the
engine takes beside its share."""


def planner(machine=None):
    def plan(config) -> Plan:
        return make_plan(config, "", HEAVY, machine or cases.gpu_machine())

    return plan


def fitted(config, machine=None) -> Fit:
    plan = planner(machine)
    return fit(config, plan(config), plan)


def gpu(gib: float, **changes):
    """A deployment on four GPUs of that size; with few sequences and short steps all of it is the cache."""
    few = {"limits__max_num_seqs": 1, "limits__max_num_batched_tokens": 256}
    size = {"hardware__gpu_memory_bytes": int(gib * GIB), "limits__max_model_len": 8192}
    return cases.on_v100(**{**few, **size, **changes})


def refusals(plan: Plan) -> set[str]:
    return {found.rule for found in plan.findings if found.severity is Severity.refuse}


def test_a_plan_that_fits_needs_nothing():
    found = fitted(gpu(16))
    assert (found.problems, found.proposals, found.nearest) == ((), (), None)
    assert "fits already" in render(found)


def least(config) -> int:
    """Bytes that a deployment needs of the engine's share of a GPU, without margins."""
    plan = planner()(config)
    return plan.budget.in_share().total() + (plan.capacity.blocks_per_request + 1) * plan.capacity.bytes_per_block


SHORT_BY = 1.5 * 2**20 / GIB
ORDER = ["max_model_len", "dtype", "gpu_memory_utilization"]


@pytest.fixture
def short():
    """A deployment that misses the GPU's share by little more than a megabyte."""
    config = gpu(16)
    return gpu(least(config) / GIB / config.limits.gpu_memory_utilization - SHORT_BY)


def test_each_change_alone_fits_and_the_cheapest_loss_is_first(short):
    found = fitted(short)
    assert [of.rule for of in found.problems] == ["gpu-memory-short"]
    assert [proposal.changes[0].name for proposal in found.proposals] == ORDER
    for proposal in found.proposals:
        assert not refusals(proposal.plan) & SIZE_RULES
        assert len(proposal.changes) == 1
        assert proposal.overrides in render(found)


def test_no_milder_change_would_do(short):
    plan = planner()
    context = fitted(short).proposals[0].changes[0]
    longer = replace(short.limits, max_model_len=context.value + 256)
    assert of_size(plan(replace(short, limits=longer)))
    share = fitted(short).proposals[-1].changes[0]
    smaller = replace(short.limits, gpu_memory_utilization=share.value - 0.01)
    assert of_size(plan(replace(short, limits=smaller)))


def test_changes_are_joined_where_none_suffices_alone():
    most = {"limits__gpu_memory_utilization": 0.92}  # no larger share could be free at the start
    tight = gpu(16, limits__max_num_seqs=64, limits__max_num_batched_tokens=2048, **most)
    strongest = gpu(16, limits__max_model_len=1024)
    share = tight.limits.gpu_memory_utilization
    room = (least(strongest) + 1.02 * 2**20) / GIB / share
    tight.hardware.gpu_memory_bytes = int(room * GIB)
    found = fitted(tight)
    (proposal,) = found.proposals
    assert len(proposal.changes) > 1
    assert not refusals(proposal.plan) & SIZE_RULES
    for left_out in proposal.changes:
        config = tight
        for change in proposal.changes:
            if change is not left_out:
                group = replace(getattr(config, change.group), **{change.name: change.value})
                config = replace(config, **{change.group: group})
        assert of_size(planner()(config)), f"{left_out.override} is not needed"


def test_what_never_fits_names_the_nearest():
    found = fitted(gpu(10.5))
    assert (found.proposals, bool(found.nearest)) == ((), True)
    names = {change.name for change in found.nearest.changes}
    assert {"max_model_len", "gpu_memory_utilization"} <= names
    assert of_size(found.nearest.plan)
    text = render(found)
    assert "nothing does" in text
    assert f"nearest: {found.nearest.overrides}" in text
    assert of_size(found.nearest.plan)[0].message in text


def test_a_cache_of_told_bytes_is_made_as_large_as_one_request():
    found = fitted(gpu(16, limits__kv_cache_memory_bytes=2**20))
    (change,) = found.proposals[-1].changes
    plan = found.proposals[-1].plan
    assert change.override == f"limits.kv_cache_memory_bytes={change.value}"
    assert change.value == (plan.capacity.blocks_per_request + 1) * plan.capacity.bytes_per_block
    assert plan.capacity.concurrency >= 1


def test_a_change_that_another_rule_refuses_is_not_proposed(short):
    """Such a proposal would only move the refusal."""
    plan = planner()

    def strict(config) -> Plan:
        made = plan(config)
        if config.kv.dtype != "float16":
            made = replace(made, findings=(*made.findings, replace(of_size(plan(short))[0], rule="dtype-unknown")))
        return made

    proposals = fit(short, strict(short), strict).proposals
    assert [proposal.changes[0].name for proposal in proposals] == ["max_model_len", "gpu_memory_utilization"]


@pytest.mark.parametrize("lever", LEVERS, ids=lambda lever: lever.changes.__name__)
def test_every_lever_moves_some_deployment_to_where_it_can_be_served(lever):
    """One whose every change another rule refuses could never be proposed."""
    deployments = [gpu(16, limits__max_num_seqs=4, limits__max_num_batched_tokens=512)]
    deployments += [gpu(16, limits__tensor_parallel=2)]
    deployments += [gpu(16, limits__for_tokens=10**6), gpu(16, limits__gpu_memory_utilization=0.98)]
    plan = planner()
    assert any(
        refusals(plan(with_changes(config, (change,)))) <= SIZE_RULES
        for config in deployments
        for change in lever.changes(config, plan(config))
    )


def test_refusals_that_have_nothing_to_do_with_size_stay_and_do_not_hinder(short):
    found = fit(short, planner(cases.machine())(short), planner(cases.machine()))  # a laptop without a GPU
    assert [proposal.changes[0].name for proposal in found.proposals] == ORDER
    assert all("no-gpu" in refusals(proposal.plan) for proposal in found.proposals)


@pytest.mark.parametrize(("told", "loss"), [(None, "tokens in the cache"), (GIB, "nothing, as the cache's bytes")])
def test_a_share_that_cannot_be_free_at_the_start_is_lowered(told, loss):
    config = gpu(16, limits__gpu_memory_utilization=0.98, limits__kv_cache_memory_bytes=told)
    found = fitted(config)
    assert [of.rule for of in found.problems] == ["gpu-share-short"]
    (change,) = found.proposals[0].changes
    assert (change.override, change.loss[:29]) == ("limits.gpu_memory_utilization=0.94", loss)
    assert not {of.rule for of in found.proposals[0].plan.findings} & {"gpu-share-short", "gpu-share-tight"}
    one_more = replace(config.limits, gpu_memory_utilization=0.95)
    assert "gpu-share-tight" in {of.rule for of in planner()(replace(config, limits=one_more)).findings}


def test_gpus_that_the_profile_has_are_proposed_first_as_they_cost_nothing():
    """Ten GiB on each of four GPUs are twenty on each of two; 12 heads divide over three, but 2 KV heads do not."""
    found = fitted(gpu(16, limits__tensor_parallel=2))
    (change,) = found.proposals[0].changes
    assert (change.override, change.loss) == ("limits.tensor_parallel=4", "2 GPUs that no rank uses")
    assert not refusals(found.proposals[0].plan)
    assert fitted(gpu(32, limits__tensor_parallel=1, limits__kv_cache_memory_bytes=GIB)).proposals[0].overrides == (
        "limits.tensor_parallel=2"
    )


def test_gpus_that_the_machine_lacks_are_not_proposed():
    two = cases.gpu_machine(gpus=(cases.v100(0), cases.v100(1)))
    found = fitted(gpu(16, limits__tensor_parallel=2), two)
    assert (found.proposals, found.nearest is not None) == ((), True)
    assert "tensor_parallel" not in {change.name for change in found.nearest.changes}
    assert render(found).endswith("or a profile (hardware=) with more GPUs or with more memory on each")


def test_a_context_beyond_the_model_is_a_size_too():
    """No proposal may still be refused for it: one that shortens another size alone would be."""
    config = gpu(32, limits__max_model_len=131072)
    found = fitted(config)
    assert "context-too-long" in {problem.rule for problem in found.problems}
    assert [proposal.overrides for proposal in found.proposals] == ["limits.max_model_len=8192"]
    assert not refusals(found.proposals[0].plan)
    joined = fitted(gpu(16, limits__max_model_len=131072, limits__tensor_parallel=2)).proposals
    assert [change.name for proposal in joined for change in proposal.changes][:2] == [
        "tensor_parallel",
        "max_model_len",
    ]
    assert not refusals(joined[0].plan)


def test_no_change_of_a_lever_is_planned_for_nothing():
    """Of the thousands of shorter contexts only those that a bisection asks for are planned, also where levers join."""
    plan, planned = planner(), []

    def counting(config) -> Plan:
        planned.append(config)
        return plan(config)

    config = gpu(16, limits__max_model_len=10**9, limits__tensor_parallel=2)
    (proposal,) = fit(config, plan(config), counting).proposals
    assert "limits.max_model_len=8192" in proposal.overrides
    assert len(planned) < 200


def test_a_model_of_few_positions_is_not_told_to_be_smaller():
    few = cases.llama(max_position_embeddings=512)

    def plan(config) -> Plan:
        return make_plan(config, "", few, cases.gpu_machine())

    config = cases.on_v100(limits__max_model_len=2048)
    text = render(fit(config, plan(config), plan))
    assert "use limits.max_model_len=512" in text.splitlines()[-1]
    assert "smaller model" not in text


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"limits__tensor_parallel": 3}, "do not divide evenly"),
        ({"kv__dtype": "fp8"}, "fp8 does not say"),
        ({"limits__for_tokens": 0}, "0 is no target"),
    ],
)
def test_what_could_not_be_computed_does_not_fit_already(changes, why):
    found = fitted(gpu(16, **changes))
    assert (found.problems, found.proposals, found.nearest) == ((), (), None)
    assert found.to_json()["unknown"]
    text = render(found)
    assert "fits already" not in text
    assert "could be computed" in text
    assert why in text
    assert "fix: " in text


def test_the_cpu_engine_is_not_told_to_take_more_gpus():
    small = cases.machine(memory_bytes=2**20, available_bytes=2**20)
    found = fitted(cases.config(limits__kv_cache_memory_bytes=GIB), small)
    assert found.problems
    assert render(found).splitlines()[-1] == "  a smaller model or a machine with more memory would"


def test_the_levers_stand_in_the_order_of_their_loss():
    config = gpu(16, limits__max_num_seqs=4, limits__max_num_batched_tokens=512)
    changes = [found for lever in LEVERS if (found := lever.changes(config, planner()(config)))]
    assert [found[0].name for found in changes] == [
        "max_model_len",
        "max_num_seqs",
        "max_num_batched_tokens",
        "dtype",
        "gpu_memory_utilization",
    ]
    targeted = gpu(16, limits__for_tokens=10**6)
    assert LEVERS[2].changes(targeted, planner()(targeted))[-1].value == targeted.limits.max_model_len
    for found in changes:
        assert len({change.override for change in found}) == len(found)
