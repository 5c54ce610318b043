"""A Plan as tables for the terminal."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from toolkit.planning.plan import Capacity, Finding, Plan, Severity

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

MARKS = {
    Severity.refuse: ("refused", "bold red"),
    Severity.warn: ("warning", "yellow"),
    Severity.info: ("note", "cyan"),
}


def render(plan: Plan, origins: Mapping[str, str], values: Mapping[str, Any]) -> Iterator[RenderableType]:
    """The plan's parts in reading order: verdict and findings last, where the eye ends.

    origins: by dotted key. values: the configuration as nested plain data.
    """
    from rich.text import Text

    yield Text(f"{plan.recipe or 'no recipe'}: {plan.model} on engine={plan.engine} at {plan.server.url}", style="bold")
    yield _configuration(origins, values)
    yield _command(plan)
    yield from _sizes(plan)
    yield _switches(plan)
    yield from findings(plan.findings)
    verdict = "refused: serve would not start this plan" if plan.refused else "this plan can be served"
    yield Text(verdict, style="bold red" if plan.refused else "bold green")


def findings(found: tuple[Finding, ...]) -> Iterator[RenderableType]:
    """One paragraph a finding: what and where, then the fix."""
    from rich.padding import Padding
    from rich.text import Text

    for finding in found:
        label, style = MARKS[finding.severity]
        line = Text.assemble((f"{label} ", style), (finding.rule, "bold"), f" at {finding.where}: {finding.message}")
        yield line
        if finding.fix:
            yield Padding(Text(f"fix: {finding.fix}"), (0, 0, 0, 4))


def _configuration(origins: Mapping[str, str], values: Mapping[str, Any]) -> RenderableType:
    table = _table("configuration", "option", "value", "set by")
    for key, origin in origins.items():
        if origin != "default":
            table.add_row(key, value_text(at(values, key)), origin)
    return table


def at(values: Mapping[str, Any], key: str) -> Any:
    """The value at a dotted key of nested data."""
    for part in key.split("."):
        values = values[part]
    return values


def value_text(value: Any) -> str:
    """A value as YAML would write it; a long mapping only by its length."""
    if isinstance(value, Mapping):
        return f"{len(value)} values"
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _command(plan: Plan) -> RenderableType:
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    env = " ".join(f"{name}={shlex.quote(value)}" for name, value in plan.env.items())
    body = [Text(_by_option(plan.argv)), Text(f"environment: {env}"), Text(f"inherited: {' '.join(plan.inherit)}")]
    return Group(Text("engine", style="bold"), *(Padding(part, (0, 0, 0, 2)) for part in body), Text(""))


def _by_option(argv: tuple[str, ...]) -> str:
    """A shell line broken before each option, ready to be pasted."""
    line = ""
    for word in argv:
        line += (" \\\n  " if word.startswith("--") else " " if line else "") + shlex.quote(word)
    return line


def _sizes(plan: Plan) -> Iterator[RenderableType]:
    if plan.memory:
        table = _table("memory of one rank", "purpose", "bytes", "GiB")
        for purpose, size in plan.memory.items():
            table.add_row(purpose, f"{size:,}", f"{size / 2**30:.3f}")
        yield table
    if plan.capacity is not None:
        yield _capacity(plan.capacity)


def _capacity(capacity: Capacity) -> RenderableType:
    table = _table("KV cache", "what", "value")
    unknown = "known after the engine's memory profiling"
    table.add_row("tokens of a block", f"{capacity.block_tokens:,}")
    table.add_row("bytes of a block", f"{capacity.bytes_per_block:,}")
    table.add_row("blocks of a full request", f"{capacity.blocks_per_request:,}")
    table.add_row("blocks", unknown if capacity.blocks is None else f"{capacity.blocks:,}")
    table.add_row("tokens", unknown if capacity.tokens is None else f"{capacity.tokens:,}")
    table.add_row("full requests at once", unknown if capacity.concurrency is None else f"{capacity.concurrency:.2f}")
    return table


def _switches(plan: Plan) -> RenderableType:
    table = _table("switches", "switch", "value", "because")
    for switch in plan.switches:
        table.add_row(switch.name, "on" if switch.value else "off", f"{switch.source}: {switch.reason}")
    return table


def _table(title: str, *columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
