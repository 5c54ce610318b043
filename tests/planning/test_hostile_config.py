"""Whatever a config.json says, a plan is made and says what is wrong with it."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import cases
import pytest
import yaml

from toolkit.planning.make import make_plan
from toolkit.planning.plan import Plan

CHECKPOINTS = sorted((Path(__file__).parents[2] / "conf/checkpoint").glob("qwen38*.yaml"))
READ_BESIDE = ("rope_parameters", "rope_scaling", "global_head_dim", "kv_lora_rank", "sliding_window", "layer_types")
STRANGE: tuple[object, ...] = (5, -1, 10**30, 10**400, 1e308, "text", [], [1], {}, None)


def keys(node: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, value in node.items():
        yield (name,)
        if isinstance(value, dict):
            yield from ((name, *inner) for inner in keys(value))


def spoilt(config: dict[str, Any], key: tuple[str, ...], value: object) -> dict[str, Any]:
    config = deepcopy(config)
    node = config
    for name in key[:-1]:
        node = node[name]
    node[key[-1]] = value
    return config


@pytest.mark.parametrize("path", CHECKPOINTS, ids=lambda path: path.stem)
def test_no_value_of_any_key_stops_the_plan(path: Path) -> None:
    declared = yaml.safe_load(path.read_text())["declared"]
    for key in (*keys(declared), *(("text_config", name) for name in READ_BESIDE)):
        for value in STRANGE:
            facts = cases.facts(config=spoilt(declared, key, value))
            assert isinstance(make_plan(cases.on_v100(), "", facts, cases.gpu_machine()), Plan), (key, value)
