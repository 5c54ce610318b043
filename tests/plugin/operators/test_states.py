"""Every operator of upstream's has one state, and docs/operators.md shows it."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from toolkit.plugin.operators import schemas, states, table
from toolkit.plugin.operators.states import Kind, state_of

ROOT = Path(__file__).resolve().parents[3]
EVERY = {schema.qualified: schema for schema in schemas.read()}


def test_upstream_has_160_operators_each_named_once() -> None:
    assert len(schemas.read()) == len(EVERY) == 160
    assert {each.namespace for each in EVERY.values()} == {
        "_C",
        "_C_cache_ops",
        "_C_cuda_utils",
        "_C_custom_ar",
        "_moe_C",
    }


def test_states_name_real_operators_and_no_operator_twice() -> None:
    named = [*states.SAME, *states.ANSWERS]
    assert [name for name, count in Counter(named).items() if count > 1] == []
    assert sorted(set(named) - EVERY.keys()) == []


def test_an_operator_of_the_library_with_upstreams_name_is_upstreams() -> None:
    library = json.loads((ROOT / "kernels/operators.json").read_text(encoding="utf-8"))["operators"]
    native = {each.name for each in EVERY.values() if state_of(each).kind is Kind.native}
    assert native == {each.name for each in EVERY.values()} & library.keys()


@pytest.mark.parametrize("pattern", [pattern for pattern, _, _ in states.GROUPS])
def test_no_group_is_without_an_operator_that_it_decides(pattern: str) -> None:
    open_names = EVERY.keys() - {*states.SAME, *states.ANSWERS}
    for other, _, _ in states.GROUPS:
        decided = {name for name in open_names if re.match(other, name)}
        if other == pattern:
            assert decided
            return
        open_names -= decided


@pytest.mark.parametrize("name", [n for n in EVERY if re.search(r"supports?(_|ed)|_supported", n)])
def test_a_probe_is_never_refused(name: str) -> None:
    assert state_of(EVERY[name]).kind is Kind.answer


def test_the_page_is_current() -> None:
    assert (ROOT / table.PAGE).read_text(encoding="utf-8") == table.page(), "run `invoke docs`"


def test_the_page_shows_each_operator_once_under_its_kind() -> None:
    shown = {}
    for section in table.page().split("\n## ")[1:]:
        title, *lines = section.splitlines()
        for name in (match[1] for line in lines if (match := re.match(r"\| `(\w+::[\w.]+)` \|", line))):
            assert name not in shown
            shown[name] = title
    assert shown == {name: table.MEANING[state_of(schema).kind] for name, schema in EVERY.items()}
