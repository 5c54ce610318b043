"""A comparison of two plans as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.display.columns import in_columns
from toolkit.display.plan_text import MARKS, gib, value_text
from toolkit.planning.compare import Changed, Comparison
from toolkit.planning.plan import Severity

LABELS = {
    "tokens": "tokens",
    "concurrency": "full requests at once",
    "blocks": "blocks",
    "blocks_per_request": "blocks of a full request",
    "block_tokens": "tokens of a block",
    "bytes_per_block": "bytes of a block",
}


@dataclass(frozen=True)
class Block:
    """What differs in one respect."""

    name: str
    rows: tuple[tuple[str, str, str, str], ...]
    """Name, this plan's value, the other's, and by how much the first is larger."""
    numbers: bool
    """The values are sizes."""


def blocks(found: Comparison) -> list[Block]:
    """What differs, and what it buys; nothing where nothing differs."""
    capacity = [Changed(LABELS[item.name], item.this, item.other) for item in found.capacity]
    parts = (
        ("what differs", found.options, value_text),
        ("switches", found.switches, _on),
        ("KV cache", capacity, _number),
        ("memory of one rank (GiB)", found.memory, _size),
        ("findings", found.findings, _mark),
    )
    return [_block(name, items, show) for name, items, show in parts if items]


def _block(name: str, items: Sequence[Changed], show: Callable[[Any], str]) -> Block:
    numbers = all(_is_number(value) for item in items for value in (item.this, item.other) if value is not None)
    rows = ((item.name, show(item.this), show(item.other), _gain(item) if numbers else "") for item in items)
    return Block(name, tuple(rows), numbers)


def render(found: Comparison) -> str:
    """The comparison in aligned lines."""
    title = f"{found.this} beside {found.other}"
    texts = [_text(block, found) for block in blocks(found)] or ["nothing differs"]
    return "\n\n".join([f"{title}\n{'=' * len(title)}", *texts])


def _text(block: Block, found: Comparison) -> str:
    rows = [(block.name, found.this, found.other, ""), *((f"  {name}", *cells) for name, *cells in block.rows)]
    return "\n".join(in_columns(rows, (1, 2) if block.numbers else ()))


def _gain(item: Changed) -> str:
    """By how much the first is larger, where both are sizes."""
    if not (_is_number(item.this) and _is_number(item.other)) or not item.other:
        return ""
    return f"{item.this / item.other - 1:+.1%}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _mark(severity: str | None) -> str:
    return "-" if severity is None else MARKS[Severity(severity)][0]


def _on(value: bool | None) -> str:
    return {True: "on", False: "off", None: "-"}[value]


def _number(value: float | None) -> str:
    if value is None:
        return "unknown"
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


def _size(value: int | None) -> str:
    return "-" if value is None else gib(value)
