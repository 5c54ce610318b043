"""The Plan: pure, frozen, and whole whatever it is made from."""

import builtins
import dataclasses
import json
import os
import socket
import subprocess
from pathlib import Path

import cases
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from toolkit.config.schema.engine import EngineName
from toolkit.config.schema.limits import EmbeddingPlace
from toolkit.machine.facts import NO_LIMIT
from toolkit.planning.capacity.drafts import draft_caches
from toolkit.planning.geometry import read_geometry
from toolkit.planning.make import make_plan
from toolkit.planning.plan import PLAN_SCHEMA, Finding, Plan, Severity
from toolkit.planning.rules.registry import MEANINGLESS


def plan(config=None, facts=None, machine=None, recipe: str = "") -> Plan:
    return make_plan(config or cases.config(), recipe, facts or cases.facts(), machine or cases.machine())


def rules(made: Plan) -> list[str]:
    return [finding.rule for finding in made.findings]


def test_it_is_made_without_any_input_or_output(monkeypatch):
    expected = plan(), plan(cases.on_v100(), machine=cases.gpu_machine())

    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError("planning looked at the world")

    for owner, names in (
        (builtins, ["open"]),
        (os, ["open", "stat", "lstat", "listdir", "scandir", "getenv", "readlink", "getcwd"]),
        (os.path, ["exists", "isfile", "isdir", "realpath"]),
        (Path, ["open", "exists", "is_file", "is_dir", "stat", "resolve", "iterdir", "read_text"]),
        (socket, ["socket"]),
        (subprocess, ["Popen"]),
    ):
        for name in names:
            monkeypatch.setattr(owner, name, refuse)
    monkeypatch.setattr(os, "environ", None)
    made = plan(), plan(cases.on_v100(), machine=cases.gpu_machine())
    monkeypatch.undo()
    assert made == expected


def test_it_is_frozen():
    made = plan()
    for name in (field.name for field in dataclasses.fields(made)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(made, name, None)


def test_it_changes_nothing_that_it_is_made_from():
    config, facts, machine = cases.on_v100(), cases.facts(), cases.gpu_machine()
    before = repr((config, facts, machine))
    plan(config, facts, machine)
    assert repr((config, facts, machine)) == before


def test_it_does_not_follow_a_configuration_that_is_changed_later():
    config = cases.config(engine__environment={"A": "1"})
    made = plan(config)
    config.engine.environment["A"] = "2"
    config.engine.inherit.clear()
    assert made.env["A"] == "1"
    assert "PATH" in made.inherit


KEYS = {
    "schema": int,
    "recipe": str,
    "engine": str,
    "model": str,
    "server": {"host": str, "port": int, "model": str, "api_key_file": (str, type(None))},
    "argv": [str],
    "env": dict,
    "inherit": [str],
    "view": {"path": (str, type(None)), "digest": (str, type(None)), "files": [str]},
    "memory": dict,
    "budget": {
        "terms": [
            {
                "purpose": str,
                "bytes": int,
                "most": int,
                "source": str,
                "margin": float,
                "place": str,
                "locked": bool,
            }
        ],
        "unknown": [str],
        "total": int,
        "most": int,
    },
    "capacity": {
        "block_tokens": int,
        "bytes_per_block": int,
        "blocks": (int, type(None)),
        "blocks_per_request": int,
        "tokens": (int, type(None)),
        "concurrency": (float, type(None)),
    },
    "switches": [{"name": str, "value": bool, "source": str, "reason": str, "alias": str}],
    "findings": [{"rule": str, "severity": str, "where": str, "message": str, "fix": str}],
}


def fits(value: object, shape: object) -> bool:
    """Whether plain data has exactly these keys and types."""
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(fits(value.get(key), part) for key, part in shape.items())
    if isinstance(shape, list):
        return isinstance(value, list) and all(fits(part, shape[0]) for part in value)
    return isinstance(value, shape)


@pytest.mark.parametrize(
    "made",
    [
        plan(cases.config(limits__kv_cache_memory_bytes=2**30)),
        plan(cases.on_v100(), machine=cases.gpu_machine(), recipe="mine"),
        plan(cases.on_v100(kv__dtype="fp8_e4m3"), cases.facts(present=False, root=None, files={})),
    ],
    ids=["cpu", "v100", "nothing here"],
)
def test_its_json_keeps_the_contract(made):
    document = json.loads(json.dumps(made.to_json(), allow_nan=False))
    assert document["schema"] == PLAN_SCHEMA == 1
    assert fits(document, KEYS)
    assert {severity.value for severity in Severity} >= {finding["severity"] for finding in document["findings"]}
    assert set(document["capacity"]) == set(KEYS["capacity"])
    assert set(document["switches"][0]) == set(KEYS["switches"][0])


def test_where_files_are_not_here_the_argv_says_so_and_the_view_is_empty():
    made = plan(facts=cases.facts(present=False, root=None, files={}))
    assert made.argv[made.argv.index("--model") + 1] == "<model: not on this machine>"
    assert (made.view.path, made.view.files) == (None, ())


def test_refused_is_any_refusal():
    assert not plan().refused
    assert not plan(cases.config(checkpoint__declared={"head_dim": 1})).refused  # a warning
    assert plan(cases.config(server__port=0)).refused


def test_a_cache_that_no_request_fits_into_is_refused_with_the_number_that_would_do():
    made = plan(cases.config(limits__kv_cache_memory_bytes=5))
    finding = next(finding for finding in made.findings if finding.rule == "kv-too-small")
    assert finding.severity is Severity.refuse
    enough = int(finding.fix.split()[1].partition("=")[2])
    assert enough == (made.capacity.blocks_per_request + 1) * made.capacity.bytes_per_block  # with the null block
    assert "kv-too-small" not in rules(plan(cases.config(limits__kv_cache_memory_bytes=enough)))
    assert "kv-too-small" in rules(plan(cases.config(limits__kv_cache_memory_bytes=enough - 1)))


@pytest.mark.parametrize(
    "changes",
    [
        {"limits__tensor_parallel": 0},
        {"dcp__size": 0},
        {"dcp__interleave": 0},
        {"kv__dtype": "fp8"},
        {"kv__dtype": "int4"},
        {"engine__dtype": "half"},
        {"speculative__method": "eagle", "speculative__tokens": 3},
        {"limits__block_size": -1},
        {"limits__kv_cache_memory_bytes": -1},
        {"limits__gpu_memory_utilization": 1.5},
    ],
    ids=str,
)
def test_a_value_that_means_nothing_is_a_refusal_and_no_size_is_computed_from_it(changes):
    made = plan(cases.config(**changes))
    assert MEANINGLESS & set(rules(made))
    assert made.capacity is None


small = st.integers(-2, 70)
configurations = st.fixed_dictionaries(
    {},
    optional={
        "limits__max_model_len": st.integers(-1, 10**7),
        "limits__max_num_seqs": small,
        "limits__max_num_batched_tokens": st.integers(-1, 10**6),
        "limits__tensor_parallel": small,
        "limits__kv_cache_memory_bytes": st.none() | st.integers(-1, 10**13),
        "limits__gpu_memory_utilization": st.floats(),
        "limits__block_size": st.none() | st.integers(-1, 5000),
        "limits__for_tokens": st.none() | st.integers(-1, 10**14),
        "limits__for_concurrency": st.none() | st.floats(),
        "limits__ngram_embedding": st.sampled_from(list(EmbeddingPlace)),
        "hardware__gpu_memory_bytes": st.integers(-1, 10**11),
        "dcp__size": st.sampled_from([-1, 0, 1, 2, 3, 4, 8]),
        "dcp__interleave": small,
        "dcp__packed_pages": st.booleans(),
        "kv__dtype": st.sampled_from(["float16", "fp8_e4m3", "fp8_e5m2", "fp8", "auto", ""]),
        "engine__dtype": st.sampled_from(["float16", "bfloat16", "float32", "half", ""]),
        "engine__name": st.sampled_from(list(EngineName)),
        "speculative__method": st.sampled_from(["none", "mtp", "dflash2", "draft_model", "ngram", "eagle", ""]),
        "speculative__tokens": small,
        "speculative__draft_layers": small,
        "speculative__draft_window": st.none() | small,
        "server__host": st.text(max_size=5),
        "server__port": st.integers(-(10**9), 10**9),
    },
)
odd = st.none() | st.booleans() | st.integers(-3, 300) | st.floats() | st.text(max_size=3) | st.just([]) | st.just({})
models = st.dictionaries(
    st.sampled_from([*cases.LLAMA, "text_config", "layer_types", "sliding_window", "quantization_config"]),
    odd,
    max_size=4,
)


@settings(max_examples=300, deadline=None)
@given(configurations, models)
@example({"engine__name": EngineName.v100}, {"architectures": True})
@example({"engine__name": EngineName.v100, "limits__gpu_memory_utilization": 1e304}, {})
@example({"engine__name": EngineName.v100, "limits__gpu_memory_utilization": float("-inf")}, {})
@example({"engine__name": EngineName.v100, "limits__gpu_memory_utilization": float("nan")}, {})
def test_whatever_is_configured_a_plan_is_made_or_an_error_of_ours_raised(changes, keys):
    made = plan(cases.config(**changes), cases.facts(config={**cases.LLAMA, **keys}))
    json.dumps(made.to_json())
    assert made.argv


def finding(made: Plan, rule: str) -> Finding:
    return next(found for found in made.findings if found.rule == rule)


def test_memory_by_purpose_and_what_the_plan_does_not_decide():
    made = plan(cases.config(limits__kv_cache_memory_bytes=2**30))
    assert made.memory["KV cache and recurrent state"] == 2**30
    assert made.memory["weights"] > 0
    assert "memory-unknown" not in rules(made)
    made = plan(cases.on_v100(), machine=cases.gpu_machine())
    said = "the plan does not decide, and does not count: KV cache and recurrent state"
    assert finding(made, "memory-unknown").message == said


def test_each_term_keeps_its_source_and_margin():
    document = plan(cases.config(limits__kv_cache_memory_bytes=2**30)).to_json()["budget"]
    terms = {term["purpose"]: term for term in document["terms"]}
    assert terms["weights"]["source"].startswith("shapes, each in its weight format")
    assert terms["weights"]["most"] == round(terms["weights"]["bytes"] * (1 + terms["weights"]["margin"]))
    assert document["total"] == sum(term["bytes"] for term in terms.values())


DRAFT = {
    "architectures": ["DFlash2DraftModel"],
    "model_type": "qwen3",
    "hidden_size": 768,
    "intermediate_size": 1536,
    "num_hidden_layers": 3,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "vocab_size": 49152,
}


def with_draft(**changes):
    return cases.on_v100(speculative__method="dflash2", speculative__tokens=7, **changes)


def test_the_draft_is_planned_by_its_own_shapes():
    described = {"speculative__draft_layers": 3, "speculative__draft_kv_bytes_per_token": 4 * 64 * 2 * 2 // 4}
    facts = cases.facts(), cases.gpu_machine()
    here = make_plan(with_draft(), "", *facts, cases.facts(name="draft", config=DRAFT))
    by_group = make_plan(with_draft(**described), "", *facts)
    assert here.capacity == by_group.capacity
    deeper = make_plan(with_draft(), "", *facts, cases.facts(config={**DRAFT, "num_hidden_layers": 6}))
    assert deeper.capacity.bytes_per_block > here.capacity.bytes_per_block
    assert "capacity-unknown" in rules(make_plan(with_draft(), "", *facts)), "neither shapes nor a description"


def test_a_smaller_draft_model_keeps_the_targets_element_type_and_must_have_its_vocabulary():
    config = cases.on_v100(speculative__method="draft_model", speculative__tokens=3, kv__dtype="fp8_e4m3")

    def planned(**changes) -> Plan:
        draft = cases.facts(name="draft", config={**DRAFT, **changes})
        return make_plan(config, "", cases.facts(), cases.gpu_machine(), draft)

    assert {cache.dtype for cache in draft_caches(config, read_geometry(DRAFT), 16, 16).values()} == {"fp8_e4m3"}
    assert "draft-vocabulary" not in rules(planned())
    told = finding(planned(vocab_size=49151), "draft-vocabulary")
    assert (told.severity, told.message) == (Severity.refuse, "the draft has 49,151 tokens and the model 49,152")


def test_a_draft_that_is_not_here_is_told():
    absent = cases.facts(present=False, root=None, config={}, files={})
    facts = cases.facts(), cases.gpu_machine()
    path = finding(make_plan(with_draft(speculative__draft_path="/no"), "", *facts, absent), "draft-not-here")
    assert (path.severity, path.message) == (Severity.refuse, "the folder /no does not exist")
    hub = with_draft(speculative__draft_repository="a/b", speculative__draft_revision="c" * 40)
    found = finding(make_plan(hub, "", *facts, absent), "draft-not-here")
    assert (found.severity, found.fix) == (Severity.warn, f"hf download a/b --revision {'c' * 40}")


GIB = 2**30


def test_a_gpu_that_is_too_small_is_refused_and_one_that_is_nearly_so_warned_of():
    def planned(memory: int, **changes) -> Plan:
        return plan(cases.on_v100(hardware__gpu_memory_bytes=memory, **changes), machine=cases.gpu_machine())

    made = planned(0)
    assert not {"gpu-memory-short", "gpu-memory-tight"} & set(rules(made)), "no size is known"
    smallest = (made.capacity.blocks_per_request + 1) * made.capacity.bytes_per_block
    least = made.budget.in_share().total() + smallest
    most = made.budget.in_share().most() + smallest
    share = cases.on_v100().limits.gpu_memory_utilization
    assert finding(planned(int(least / share) - 9), "gpu-memory-short").severity is Severity.refuse
    assert finding(planned(int(least / share) + 9), "gpu-memory-tight").severity is Severity.warn
    assert finding(planned(int(most / share) - 9), "gpu-memory-tight").severity is Severity.warn
    assert not {"gpu-memory-short", "gpu-memory-tight"} & set(rules(planned(int(most / share) + 9)))
    told = {"limits__kv_cache_memory_bytes": 16 * GIB}
    assert "gpu-memory-short" in rules(planned(16 * GIB, **told)), "a cache of 16 GiB alone fills it"
    assert "gpu-memory-short" not in rules(planned(20 * GIB, **told)), "and may then take all of the GPU"
    budget = planned(20 * GIB, **told).budget
    assert "gpu-memory-short" in rules(planned(budget.total() - 1, **told))
    assert "gpu-memory-short" not in rules(planned(budget.total(), **told)), "to the byte"
    assert "gpu-memory-tight" in rules(planned(budget.most() - 1, **told))
    assert "gpu-memory-tight" not in rules(planned(budget.most(), **told))


def test_what_profiling_may_find_is_told_from_the_least_to_the_most():
    def planned(memory: int) -> Plan:
        return plan(cases.on_v100(hardware__gpu_memory_bytes=memory), machine=cases.gpu_machine())

    made = planned(32 * GIB)
    share = cases.on_v100().limits.gpu_memory_utilization
    inside = made.budget.in_share()
    rooms = [(int(32 * GIB * share) - taken) / GIB for taken in (inside.most(), inside.total())]
    assert f"leave {rooms[0]:.2f} to {rooms[1]:.2f} GiB" in finding(made, "capacity-estimate").message
    assert "leave 0.00 to 0.00 GiB for the cache: 0 to 0 tokens" in finding(planned(1), "capacity-estimate").message


@pytest.mark.parametrize("told", [None, GIB])
def test_the_share_that_the_engine_asks_for_has_to_be_free_beside_its_context(told):
    def planned(share: float) -> Plan:
        changes = {"limits__kv_cache_memory_bytes": told, "limits__gpu_memory_utilization": share}
        return plan(cases.on_v100(hardware__gpu_memory_bytes=16 * GIB, **changes), machine=cases.gpu_machine())

    beside = planned(0.9).budget.beside_share()
    assert [term.purpose for term in beside.terms] == ["CUDA context", "NCCL buffers"]
    fits, tight = (1 - taken / (16 * GIB) for taken in (beside.most(), beside.total()))
    assert not {"gpu-share-tight", "gpu-share-short"} & set(rules(planned(fits - 1e-9)))
    assert finding(planned(fits + 1e-9), "gpu-share-tight").severity is Severity.warn
    assert finding(planned(tight - 1e-9), "gpu-share-tight").severity is Severity.warn
    assert finding(planned(tight + 1e-9), "gpu-share-short").severity is Severity.refuse


def test_a_table_that_is_not_there_may_be_kept_anywhere():
    config = cases.on_v100(limits__ngram_embedding=EmbeddingPlace.disk)
    assert "embedding-on-disk" not in rules(plan(config, machine=cases.gpu_machine()))


def ngram(place: str, **changes) -> Plan:
    """Flash-Next's 47.68 GiB table on a machine with 64 GiB."""
    shapes = OmegaConf.to_container(OmegaConf.load(cases.CONF / "checkpoint/qwen38_flash_next_nvfp4.yaml"))["declared"]
    config = cases.on_v100(kv__dtype="fp8_e4m3", limits__ngram_embedding=EmbeddingPlace(place))
    return plan(config, cases.facts(config=shapes), cases.gpu_machine(**{"memory_bytes": 40 * GIB, **changes}))


@pytest.mark.parametrize(
    ("lockable", "said"),
    [
        (2**16, [Severity.warn]),
        (12 * GIB, []),
        (NO_LIMIT, []),
        (None, [Severity.unchecked]),
    ],
)
def test_a_pinned_table_needs_memory_that_may_be_locked(lockable, said):
    """A quarter of the table, 11.92 GiB, is locked by each of the four ranks."""
    findings = ngram("pinned", lockable_bytes=lockable).findings
    assert [found.severity for found in findings if found.rule == "locked-memory-short"] == said
    assert "locked-memory-short" not in rules(ngram("gpu", lockable_bytes=lockable))


def test_memory_that_could_not_be_read_is_not_taken_for_none():
    unread = {"memory_bytes": 0, "available_bytes": 0, "unread": {"memory": "no /proc here"}}
    assert finding(ngram("pinned", **unread), "host-memory-short").severity is Severity.unchecked
    assert "host-memory-short" not in rules(ngram("gpu", **unread))


def test_a_table_beside_the_gpu_needs_a_machine_that_holds_it():
    found = finding(ngram("pinned"), "host-memory-short")
    assert found.message == "47.68 GiB stay in the machine's memory, which has 40.00 GiB"
    assert "host-memory-short" not in rules(ngram("gpu"))
    assert finding(ngram("disk"), "embedding-on-disk").severity is Severity.refuse
    argv = ngram("gpu").argv
    assert json.loads(argv[argv.index("--engram-config") + 1]) == {"cpu_offload": False}
    assert "--engram-config" not in ngram("pinned").argv
