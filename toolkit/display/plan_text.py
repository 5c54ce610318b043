"""A Plan as text for the terminal."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from toolkit.counted import counted
from toolkit.display.words import joined, words
from toolkit.planning.budget import Budget
from toolkit.planning.plan import Capacity, Finding, Plan, Severity, SwitchValue

if TYPE_CHECKING:
    from rich.console import RenderableType

MARKS = {
    Severity.unchecked: ("unknown", "magenta"),
    Severity.info: ("note", "cyan"),
    Severity.warn: ("warning", "yellow"),
    Severity.refuse: ("refused", "bold red"),
}
UNKNOWN = "known after the engine's memory profiling"


def render(
    plan: Plan, origins: Mapping[str, str], values: Mapping[str, Any], shipped: PurePath
) -> Iterator[RenderableType]:
    """The plan's parts in reading order: findings and verdict last, where the eye ends.

    A rich Text is a line to be pasted, which `page.laid_out` does not break; everything else is laid out to the width.
    origins: by dotted key. values: the configuration as nested plain data.
    shipped: the toolkit's own configuration folder, which origins are named relative to.
    """
    first = f"{plan.recipe or 'no recipe'}: {plan.model} on {engine_text(plan, values)}"
    yield words(f"{first}\n{'=' * len(first)}", style="bold")
    yield from _configuration(origins, values, shipped)
    yield from _command(plan)
    yield from _sizes(plan)
    yield from _switches(plan.switches)
    yield from findings(plan.findings)
    verdict = "refused: serve would not start this plan" if plan.refused else "this plan can be served"
    yield words("")
    yield words(verdict, style="bold red" if plan.refused else "bold green")


def engine_text(plan: Plan, values: Mapping[str, Any]) -> str:
    """The engine, the profile's GPUs where it has any, and the address."""
    hardware = values.get("hardware", {})
    gpus = f" for {hardware['gpu_count']} x {hardware['gpu']}" if hardware.get("gpu") else ""
    return f"engine={plan.engine}{gpus} at {plan.server.url}"


def findings(found: Sequence[Finding]) -> Iterator[RenderableType]:
    """What was found, the gravest last: the rule and where, what is wrong, and the fix."""
    if found:
        yield from heading("findings")
    for severity, (label, style) in MARKS.items():
        for names, finding in alike([finding for finding in found if finding.severity is severity]):
            said = [
                joined(words(names, "bold"), words(f" at {finding.where}" if finding.where else "")),
                finding.message,
            ]
            said += [f"fix: {finding.fix}"] if finding.fix else []
            yield aligned(((words(label if not row else "", style), line) for row, line in enumerate(said)), 7)


def alike(found: Sequence[Finding]) -> Iterator[tuple[str, Finding]]:
    """Each finding with its rule's name; those that wait for the same fact are one, with all their names."""
    waiting: dict[tuple[str, str], list[Finding]] = {}
    for finding in found:
        if finding.severity is Severity.unchecked:
            waiting.setdefault((finding.message, finding.fix), []).append(finding)
        else:
            yield finding.rule, finding
    for same in waiting.values():
        where = same[0].where if len({finding.where for finding in same}) == 1 else ""
        yield ", ".join(dict.fromkeys(finding.rule for finding in same)), replace(same[0], where=where)


def at(values: Mapping[str, Any], key: str) -> Any:
    """The value at a dotted key of nested data."""
    for part in key.split("."):
        values = values[part]
    return values


def value_text(value: Any) -> str:
    """A value as YAML would write it; a mapping that is not empty only by its length."""
    if isinstance(value, Mapping) and value:
        return counted(len(value), "value")
    return value if isinstance(value, str) else json.dumps(value, default=str)


def origin_text(origin: str, shipped: PurePath) -> str:
    """An origin as short as it stays clear: `kv/float16.yaml` for a shipped file, a user's file in full."""
    path = PurePath(origin)
    return str(path.relative_to(shipped)) if path.is_relative_to(shipped) else origin


def _configuration(
    origins: Mapping[str, str], values: Mapping[str, Any], shipped: PurePath
) -> Iterator[RenderableType]:
    chosen = {key: origin for key, origin in origins.items() if origin != "default"}
    width = max(map(len, chosen), default=0)
    yield from heading("configuration, by what set it")
    for origin in dict.fromkeys(chosen.values()):
        yield words(f"  {origin_text(origin, shipped)}", style="cyan")
        rows = ((key, value_text(at(values, key))) for key, setter in chosen.items() if setter == origin)
        yield aligned(rows, width, indent=4)


def _command(plan: Plan) -> Iterator[RenderableType]:
    yield from heading("engine")
    yield words(f"  {by_option(plan.argv)}")
    variables = [f"{name}={shlex.quote(value)}" for name, value in plan.env.items()]
    yield aligned([("sets", " ".join(variables)), ("inherits", " ".join(plan.inherit))], 8)


def by_option(argv: tuple[str, ...]) -> str:
    """A shell line broken before each option, ready to be pasted."""
    line = ""
    for word in argv:
        line += (" \\\n    " if word.startswith("--") else " " if line else "") + shlex.quote(word)
    return line


def _sizes(plan: Plan) -> Iterator[RenderableType]:
    if plan.budget.terms:
        yield from heading("memory of one rank")
        yield _memory(plan.budget)
    if plan.capacity is not None:
        yield from heading("KV cache")
        yield aligned(capacity_rows(plan.capacity), 25)


def _memory(budget: Budget) -> RenderableType:
    """Each term with its margin and source, the sum, and what the plan does not decide."""
    from rich.padding import Padding
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(overflow="fold")
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold", style="dim")
    purposes = budget.by_purpose()
    for purpose, term in zip(purposes, budget.terms, strict=True):
        margin = f"+{term.margin:.0%}" if term.margin else ""
        table.add_row(words(purpose), f"{gib(term.bytes)} GiB", margin, words(term.source))
    most = f"up to {gib(budget.most())} GiB with all margins"
    table.add_row(words("together", style="bold"), f"{gib(budget.total())} GiB", "", words(most))
    if budget.unknown:
        table.add_row(words("not counted"), "", "", words(", ".join(budget.unknown)))
    return Padding(table, (0, 0, 0, 2))


def gib(size: int) -> str:
    """Bytes in GiB, to three digits."""
    return f"{size / 2**30:.3f}"


def capacity_rows(capacity: Capacity) -> Iterator[tuple[str, str]]:
    """What the cache holds, as labels and values."""
    yield "tokens of a block", f"{capacity.block_tokens:,}"
    yield "bytes of a block", f"{capacity.bytes_per_block:,}"
    yield "blocks of a full request", f"{capacity.blocks_per_request:,}"
    if capacity.blocks is None:
        yield "blocks, tokens, requests", UNKNOWN
        return
    yield "blocks", f"{capacity.blocks:,}"
    yield "tokens", UNKNOWN if capacity.tokens is None else f"{capacity.tokens:,}"
    yield "full requests at once", UNKNOWN if capacity.concurrency is None else f"{capacity.concurrency:.2f}"


def _switches(switches: Iterable[SwitchValue]) -> Iterator[RenderableType]:
    alike: dict[tuple[bool, str], list[str]] = {}
    for switch in switches:
        alike.setdefault((switch.value, f"{switch.source}: {switch.reason}"), []).append(switch.name)
    yield from heading("switches")
    for (value, reason), names in alike.items():
        yield aligned([("on" if value else "off", reason), ("", ", ".join(names))], 3)


def heading(text: str) -> Iterator[RenderableType]:
    """A section's title below an empty line."""
    yield words("")
    yield words(text, style="bold")


def aligned(rows: Iterable[tuple[Any, Any]], width: int, indent: int = 2) -> RenderableType:
    """Two columns, the first of a fixed width; long texts of the second hang under their beginning."""
    from rich.padding import Padding
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=width, overflow="fold")
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*(words(cell) if isinstance(cell, str) else cell for cell in row))
    return Padding(table, (0, 0, 0, indent))
