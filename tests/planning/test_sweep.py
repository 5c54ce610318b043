"""What a sweep's table and document say of each combination."""

import json

import cases

from toolkit.display.sweep_text import table
from toolkit.errors import ConfigurationError
from toolkit.planning.make import make_plan
from toolkit.planning.sweep import Row, as_mapping, document, refused_in_all, swept


def row(*overrides: str, config=None, machine=None) -> Row:
    plan = make_plan(config or cases.config(), "mine", cases.facts(), machine or cases.machine())
    return Row(as_mapping(overrides), plan, {"kv.dtype": "default"})


def test_overrides_by_what_they_set():
    assert as_mapping(["+recipe=x", "++limits.block_size=16", "dcp='2'", "~overlay"]) == {
        "recipe": "x",
        "limits.block_size": "16",
        "dcp": "2",
        "overlay": "",
    }


def test_only_what_was_swept_is_a_column():
    rows = [row("+recipe=x", "dcp=1", "kv=a"), row("+recipe=x", "dcp=2", "kv=a"), row("+recipe=x", "dcp=2")]
    assert swept(rows) == ("dcp", "kv")
    assert swept(rows[:1]) == ("recipe", "dcp", "kv")


def test_what_refuses_all_is_said_once():
    both = cases.on_v100(server__port=0)
    rows = [row("dcp=1", config=both), row("dcp=2", config=cases.on_v100())]
    assert refused_in_all(rows) == ("no-gpu",)
    lines = table(rows)
    assert lines[1].endswith("refused: port-out-of-range")
    assert lines[2].endswith("  refused")
    assert lines[-1] == "refused in all of them: no-gpu"
    assert refused_in_all([]) == ()


def test_numbers_stand_under_each_other():
    sizes = (2**28, 2**30)
    rows = [row(f"x={size}", config=cases.config(limits__kv_cache_memory_bytes=size)) for size in sizes]
    lines = table(rows)
    end = lines[0].index("tokens") + len("tokens")
    for line, made in zip(lines[1:], rows, strict=True):
        assert line[:end].endswith(f" {made.plan.capacity.tokens:,}")


def test_an_error_keeps_its_place():
    rows = [row("x=1"), Row({"x": "2"}, None, {}, ConfigurationError("no such thing", fix="another"))]
    assert table(rows)[2].split(maxsplit=1) == ["2", "error: no such thing"]
    found = json.loads(json.dumps(document(rows)))
    assert (found["schema"], found["swept"], len(found["plans"])) == (1, ["x"], 1)
    assert found["failed"] == [
        {
            "overrides": {"x": "2"},
            "exit_code": 2,
            "error": {"what": "no such thing", "where": "", "why": "", "fix": "another"},
        }
    ]


def test_a_plan_without_sizes_says_so():
    lines = table([row("x=1", config=cases.config(kv__dtype="fp8"))])
    assert lines[1].split()[1:5] == ["unknown", "unknown", "unknown", "unknown"]
    profiled = table([row("x=1", config=cases.on_v100())])
    assert profiled[1].split()[2:4] == ["profiled", "profiled"]
