"""Strictness and its helpers, apart from Hydra."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.config.composed import resolvers
from toolkit.config.schema.verbs import PlanConfig
from toolkit.config.strict import close_matches, free_mapping, known_keys, strict, suggestion, unknown_keys
from toolkit.errors import ConfigurationError


class Colour(Enum):
    red = "red"


@dataclass
class Inner:
    size: int = 1
    colour: Colour = Colour.red
    free: dict[str, Any] = field(default_factory=dict)


@dataclass
class Root:
    name: str = "???"
    inner: Inner = field(default_factory=Inner)


KNOWN = tuple(known_keys(PlanConfig))


def test_plain_values_become_the_schemas_classes():
    made = strict({"name": "x", "inner": {"size": 2, "colour": "red", "free": {"a": {"b": 1}}}}, Root)
    assert made == Root("x", Inner(2, Colour.red, {"a": {"b": 1}}))
    assert strict({"name": "x"}, Root) == Root("x")


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"name": "x", "nam": 1}, "unknown option 'nam'"),
        ({"name": "x", "inner": {"sise": 1}}, "unknown option 'inner.sise'"),
        ({"inner": {}}, "no value for 'name'"),
        ({"name": "x", "inner": {"size": "big"}}, "wrong value for 'inner.size'"),
        ({"name": "x", "inner": {"size": None}}, "wrong value for 'inner.size'"),
        ({"name": "x", "inner": {"colour": "blue"}}, "wrong value for 'inner.colour'"),
        ({"name": "x", "inner": None}, "wrong value for 'inner'"),
    ],
)
def test_what_does_not_fit(values, what):
    with pytest.raises(ConfigurationError) as raised:
        strict(values, Root)
    assert raised.value.what == what


def test_a_free_mapping_takes_any_key_and_is_one_leaf():
    assert list(known_keys(Root)) == ["name", "inner.size", "inner.colour", "inner.free"]
    assert list(unknown_keys({"inner": {"free": {"x": {"y": 1}}}}, Root)) == []
    assert free_mapping("inner.free.x.y", tuple(known_keys(Root))) == "inner.free"
    assert free_mapping("inner.freely", tuple(known_keys(Root))) is None


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("limits.max_modle_len", "did you mean limits.max_model_len?"),
        ("limit.max_model_len", "did you mean limits.max_model_len?"),
        ("max_model_len", "did you mean limits.max_model_len?"),
        ("server.prot", "did you mean server.port?"),
        ("engine.max_num_seqs", "did you mean limits.max_num_seqs?"),
        ("kv.type", "did you mean kv.dtype?"),
        ("name", "did you mean checkpoint.name or overlay.name or hardware.name?"),
        ("zzz", "see docs/config.md for every option"),
        ("limits.zzz", "see docs/config.md for every option"),
    ],
)
def test_suggestions(typed, meant):
    assert suggestion(typed, KNOWN) == meant


@given(st.sampled_from(KNOWN), st.data())
def test_one_letter_left_out_is_always_found(key, data):
    group, _, last = key.rpartition(".")
    if len(last) < 5:
        return
    place = data.draw(st.integers(0, len(last) - 1))
    typo = f"{group}.{last[:place]}{last[place + 1 :]}".lstrip(".")
    if typo not in KNOWN:
        assert key in suggestion(typo, KNOWN)


def test_close_matches_are_ordered_and_few():
    assert close_matches("fp8_e4m2", ["float16", "fp8_e5m2", "fp8_e4m3"]) == ["fp8_e4m3", "fp8_e5m2"]
    assert close_matches("x", ["abc"]) == []
    assert close_matches("x", []) == []
    assert len(close_matches("aaaa", [f"aaaa{digit}" for digit in range(9)])) == 3


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"a": "${oc.env:HOME}"}, [("a", "${oc.env:HOME}")]),
        ({"a": {"b": ["x", "y ${now:%Y}"]}}, [("a.b[1]", "${now:%Y}")]),
        ({"a": "${ hydra:runtime.cwd }"}, [("a", "${ hydra:runtime.cwd }")]),
        ({"a": "${oc.decode:${b}}"}, [("a", "${oc.decode:${b}")]),
        ({"a": "${limits.x}", "b": "${..c}", "d": "\\${oc.env:X}", "e": "$HOME:x", "f": 3, "g": None}, []),
    ],
)
def test_resolvers_are_found(values, found):
    assert list(resolvers(values)) == found
