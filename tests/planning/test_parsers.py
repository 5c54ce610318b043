"""The table of parsers against vLLM's own registries, and the families against the parsers."""

import ast
import importlib.util
from pathlib import Path

import pytest

from toolkit.planning.parsers import BY_MODEL_TYPE, REASONING_PARSERS, TOOL_PARSERS, spoken_by


@pytest.mark.parametrize(
    ("folder", "table", "known"),
    [
        ("tool_parsers", "_TOOL_PARSERS_TO_REGISTER", TOOL_PARSERS),
        ("reasoning", "_REASONING_PARSERS_TO_REGISTER", REASONING_PARSERS),
    ],
)
def test_the_names_are_upstreams(folder, table, known):
    spec = importlib.util.find_spec("vllm")
    if spec is None or spec.origin is None:
        pytest.skip("vLLM is not installed here")
    tree = ast.parse((Path(spec.origin).parent / folder / "__init__.py").read_text(encoding="utf-8"))
    made = next(node for node in ast.walk(tree) if isinstance(node, ast.Assign) and node.targets[0].id == table)
    assert known == {key.value for key in made.value.keys}


def test_families_name_parsers_that_exist():
    assert all(set(family.tools) <= TOOL_PARSERS for family in BY_MODEL_TYPE.values())
    assert all(set(family.reasoning) <= REASONING_PARSERS for family in BY_MODEL_TYPE.values())


@pytest.mark.parametrize(
    ("model_type", "family"),
    [
        ("qwen3_5", "qwen3_5"), ("qwen3_5_moe", "qwen3_5"), ("qwen3_5_moe_text", "qwen3_5"), ("qwen3_moe", "qwen3"),
        ("qwen3_next", "qwen3_next"), ("llama", None), ("", None),
    ],
)  # fmt: skip
def test_the_family_of_a_model_type(model_type, family):
    assert spoken_by(model_type) == (None if family is None else BY_MODEL_TYPE[family])
