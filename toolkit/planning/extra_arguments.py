"""What arguments that are appended to the engine's command line say, as far as planning needs it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from toolkit.planning.engine_arguments import canonical

LARGEST_GRAPH = 512
"""Rows of the largest graph that vLLM captures by itself."""


def value_of(arguments: Sequence[str], *names: str) -> str | None:
    """The value of an argument, the last one as the engine takes it; None without.

    It is written as `--name value` or `--name=value`, and behind one letter also as `-nvalue`.
    """
    found = None
    for position, argument in enumerate(arguments):
        _, equals, value = argument.partition("=")
        name = canonical(argument)
        if name not in names:
            continue
        if name == argument[:2] != argument and not equals:
            found = argument[2:]
        else:
            found = value if equals else next(iter(arguments[position + 1 :]), "")
    return found


def given(arguments: Sequence[str], *names: str) -> bool:
    """Whether an argument is there, in any of its spellings."""
    return any(canonical(argument) in names for argument in arguments)


def begins(arguments: Sequence[str], beginnings: tuple[str, ...]) -> bool:
    """Whether an argument, spelled as vLLM does, begins in one of these ways."""
    return any((canonical(argument) or argument).startswith(beginnings) for argument in arguments)


def graph_sizes(arguments: Sequence[str]) -> tuple[int, ...]:
    """Rows of the captured graphs that the arguments list; empty where the engine chooses them."""
    sizes = _object(value_of(arguments, "--compilation-config", "-cc")).get("cudagraph_capture_sizes")
    if isinstance(sizes, list) and sizes and all(isinstance(size, int) for size in sizes):
        return tuple(sizes)
    return tuple(_listed(arguments))


def largest_graph(arguments: Sequence[str]) -> int:
    """The most rows of a captured graph: what the arguments ask for, or up to what the engine goes by itself."""
    most = value_of(arguments, "--max-cudagraph-capture-size")
    if most is not None and most.isdecimal():
        return int(most)
    return max(graph_sizes(arguments), default=LARGEST_GRAPH)


def takes(arguments: Sequence[str], *kinds: str) -> bool:
    """Whether the engine takes images, videos or other kinds of input, of any of `kinds`, if the model does."""
    if given(arguments, "--language-model-only"):
        return False
    limits = _object(value_of(arguments, "--limit-mm-per-prompt"))
    told = {kind: value_of(arguments, f"--limit-mm-per-prompt.{kind}") or limits.get(kind) for kind in kinds}
    return any(limit not in ("0", 0, {"count": 0}) for limit in told.values())


def _listed(arguments: Sequence[str]) -> Iterator[int]:
    """The sizes after --cudagraph-capture-sizes, up to the next argument."""
    listed = False
    for word in arguments:
        if listed and word.isdecimal():
            yield int(word)
        else:
            listed = canonical(word) == "--cudagraph-capture-sizes"


def _object(text: str | None) -> dict[str, Any]:
    """A JSON object; empty for anything else, which the engine refuses by itself."""
    try:
        found = json.loads(text or "null")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
