"""Numbers of any size in any option: an error that names it, or a plan."""

import sys
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "planning"))
import cases

from toolkit.config import composing
from toolkit.config.command_line import read_command_line
from toolkit.config.composition import prepare
from toolkit.config.schema.verbs import DeploymentConfig, PlanConfig
from toolkit.config.search_path import shipped_conf
from toolkit.config.whole_numbers import LARGEST, too_large
from toolkit.errors import ConfigurationError
from toolkit.planning.make import make_plan
from toolkit.planning.plan import Plan

HUGE = "9" * 400


def numeric(schema: type[Any], prefix: str = "") -> Iterator[str]:
    """Options that hold a number, dotted."""
    hints = get_type_hints(schema)
    for field in fields(schema):
        kind = hints[field.name]
        if is_dataclass(kind):
            yield from numeric(kind, f"{prefix}{field.name}.")
        elif {int, float} & {kind, *getattr(kind, "__args__", ())}:
            yield f"{prefix}{field.name}"


OPTIONS = sorted(numeric(PlanConfig))


def test_the_options_are_found():
    assert {"hardware.gpu_memory_bytes", "limits.max_model_len", "limits.for_concurrency", "server.port"} <= {*OPTIONS}


@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize("option", OPTIONS)
def test_a_number_of_hundreds_of_digits_is_refused_by_its_name(option, sign):
    with pytest.raises(ConfigurationError) as caught:
        as_a_verb(f"{option}={sign}{HUGE}")
    assert option in caught.value.what + caught.value.where
    assert caught.value.why


def as_a_verb(override: str) -> None:
    """The verbs' own entry, which explains what composition raises."""
    prepare("plan", PlanConfig)
    composing.compose("plan", PlanConfig, read_command_line([override], shipped_conf()))


def test_one_of_thousands_of_digits_is_an_error_as_well():
    with pytest.raises(ConfigurationError, match="cannot be read"):
        as_a_verb("limits.max_model_len=" + "9" * 5000)


def test_numbers_inside_free_values_are_looked_at():
    with pytest.raises(ConfigurationError, match=r"checkpoint\.declared\.sizes\[1\]"):
        as_a_verb(f"+checkpoint.declared.sizes=[1,{HUGE}]")
    assert list(too_large({"a": [True, LARGEST, {"b": -LARGEST - 1}]}, "x")) == ["x.a[2].b"]


@pytest.mark.parametrize("make", [cases.config, cases.on_v100], ids=["cpu", "v100"])
@pytest.mark.parametrize("value", [LARGEST, -LARGEST, 0, 1e308, float("nan"), float("inf"), -1.5])
def test_the_largest_that_are_read_make_a_plan(make, value):
    """Whatever it says of them."""
    for option in numeric(DeploymentConfig):
        config = deepcopy(make())
        *groups, name = option.split(".")
        node = config
        for group in groups:
            node = getattr(node, group)
        whole = "float" not in str(get_type_hints(type(node))[name])
        if whole and not isinstance(value, int):
            continue
        setattr(node, name, value)
        made = make_plan(config, "", cases.facts(), cases.gpu_machine())
        assert isinstance(made, Plan), option
        assert made.to_json()


@pytest.mark.parametrize("space", [HUGE, "1" * 5000, "-1", "1e9"])
def test_the_engines_own_variable_is_bounded_too(space):
    config = cases.config(engine__environment={"VLLM_CPU_KVCACHE_SPACE": space}, limits__kv_cache_memory_bytes=None)
    assert make_plan(config, "", cases.facts(), cases.machine()).findings
