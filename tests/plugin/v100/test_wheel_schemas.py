"""schemas.txt against the wheel: the strings with which vLLM 0.32.0's own libraries define their operators."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from toolkit.plugin.operators import schemas

from .conftest import ROOT

LIBRARIES = ("_C_stable_libtorch.abi3.so", "_moe_C_stable_libtorch.abi3.so")
STRING = re.compile(rb"(?<=\x00)[\x20-\x7e\n]{8,4000}(?=\x00)")
SCHEMA = re.compile(r"\s*([A-Za-z_][\w.]*)\s*(\(.*\)\s*->.*)", re.DOTALL)


def strings() -> Iterator[tuple[str, str]]:
    """Name and signature of each schema in the libraries' text."""
    folder = next(ROOT.glob(".venv-v100/lib/python3.*/site-packages/vllm"), None)
    if folder is None:
        pytest.skip("no .venv-v100 here: ./quickstart setup engine=v100")
    for library in LIBRARIES:
        for found in STRING.finditer((folder / library).read_bytes()):
            match = SCHEMA.fullmatch(found[0].decode())
            if match is not None:
                yield match[1], match[2]


def written(argument: Any) -> bool:
    """Whether the operator writes to it."""
    return argument.alias_info is not None and bool(argument.alias_info.is_write)


def parsed(signature: str) -> tuple[Any, ...]:
    """Arguments and returns as torch reads them; how an alias is named does not count, that one is written to does."""
    schema = torch._C.parse_schema(f"x::x{signature}")
    arguments = [
        (each.name, str(each.type), each.default_value, each.kwarg_only, written(each)) for each in schema.arguments
    ]
    return arguments, [str(each.type) for each in schema.returns]


def test_the_file_lists_what_the_wheel_defines_with_the_same_arguments() -> None:
    theirs = [(name, parsed(signature)) for name, signature in strings()]
    assert len({name for name, _ in theirs}) == 160
    ours = {schema.name: parsed(schema.signature) for schema in schemas.read()}
    assert {name for name, _ in theirs} == ours.keys()
    assert [name for name, signature in theirs if signature != ours[name]] == []
