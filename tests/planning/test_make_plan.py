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
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.config.schema.engine import EngineName
from toolkit.planning.make import make_plan
from toolkit.planning.plan import PLAN_SCHEMA, Plan, Severity
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
    enough = int(finding.fix.split()[3].replace(",", ""))
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
        "dcp__size": st.sampled_from([-1, 0, 1, 2, 3, 4, 8]),
        "dcp__interleave": small,
        "dcp__packed_pages": st.booleans(),
        "kv__dtype": st.sampled_from(["float16", "fp8_e4m3", "fp8_e5m2", "fp8", "auto", ""]),
        "engine__dtype": st.sampled_from(["float16", "bfloat16", "float32", "half", ""]),
        "engine__name": st.sampled_from(list(EngineName)),
        "speculative__method": st.sampled_from(["none", "mtp", "dflash2", "ngram", "eagle", ""]),
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
def test_whatever_is_configured_a_plan_is_made_or_an_error_of_ours_raised(changes, keys):
    made = plan(cases.config(**changes), cases.facts(config={**cases.LLAMA, **keys}))
    json.dumps(made.to_json())
    assert made.argv


def test_memory_by_purpose_and_what_has_no_number():
    made = plan(cases.config(limits__kv_cache_memory_bytes=2**30))
    assert made.memory["KV cache and recurrent state"] == 2**30
    assert made.memory["weights"] > 0
    finding = next(finding for finding in made.findings if finding.rule == "memory-unknown")
    assert finding.message == "nothing is counted for activations"
