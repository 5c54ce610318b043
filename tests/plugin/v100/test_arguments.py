"""The planned command lines of engine=v100, as vLLM's own server reads them: every word arrives as it was meant."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "config"))
sys.path.insert(0, str(Path(__file__).parents[2] / "planning"))
import cases as planning
from composing import compose
from test_proof_cases import plan_of

from tests.gpu.serving.cases import CASES
from toolkit.config.schema.engine import EngineName
from toolkit.planning.command import engine_command

from .conftest import ROOT, Run, last_json

RECIPES = sorted(file.stem for file in (ROOT / "recipes").glob("*.yaml"))
NO_MATTER = {"model"}
"""Given anew: a folder that is there."""


def recipe_lines() -> Iterator[tuple[str, tuple[str, ...]]]:
    for name in RECIPES:
        config = compose(f"+recipe={name}").config
        if config.engine.name is EngineName.v100:
            yield name, engine_command(config, "/model", "python", {}).argv


@pytest.fixture(scope="module")
def lines() -> dict[str, list[str]]:
    """Words after the program, by recipe or case."""
    served = {case.name: plan_of(case, 1).argv for case in CASES}
    return {name: list(argv[3:]) for name, argv in {**served, **dict(recipe_lines())}.items()}


@pytest.fixture(scope="module")
def read(run: Run, lines: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What became of each."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "config.json").write_text(json.dumps(planning.LLAMA))
    there = [["--model", str(folder), *words[2:]] for words in lines.values()]
    answer = run("parsed", json.dumps(there), VOLTA_TEST_GPUS="7.0", VOLTA_PLATFORM="v100")
    return dict(zip(lines, last_json(answer), strict=True))


def options(words: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Each option's name in Python and the words that follow it."""
    for at, word in enumerate(words):
        if word.startswith("--"):
            yield word[2:].replace("-", "_"), list(takewhile(lambda w: not w.startswith("--"), words[at + 1 :]))


def meant(found: Any, said: list[str]) -> bool:
    """Whether a value is what those words say."""
    if isinstance(found, bool):
        return found and not said
    if isinstance(found, dict):
        return bool(found == json.loads(said[0]))
    if isinstance(found, list):
        return said == [f"{each['name']}={each['path']}" if isinstance(each, dict) else each for each in found]
    return said == [str(found)]


def test_recipes_and_cases_of_every_kind_are_read(lines: dict[str, list[str]]) -> None:
    assert {"smollm2_v100", "qwen38_27b_nvfp4_dflash2", "dcp2_e4m3"} <= lines.keys()
    said = {word for words in lines.values() for word in words if word.startswith("--")}
    assert {"--speculative-config", "--lora-modules", "--limit-mm-per-prompt", "--tensor-parallel-size"} <= said


def test_every_word_of_every_line_is_read_as_it_was_meant(
    lines: dict[str, list[str]], read: dict[str, dict[str, Any]]
) -> None:
    for name, words in lines.items():
        for option, said in options(words):
            if option.startswith("no_"):
                assert read[name][option.removeprefix("no_")] is False, (name, option)
            elif option not in NO_MATTER:
                assert meant(read[name][option], said), (name, option, said, read[name][option])
