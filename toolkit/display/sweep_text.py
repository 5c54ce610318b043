"""A sweep as one table of plain lines, a combination each; nothing is cut or folded."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from toolkit.display.columns import in_columns
from toolkit.display.plan_text import gib
from toolkit.planning.plan import Plan
from toolkit.planning.sweep import Row, refused_in_all, swept

NUMBERS = ("block", "tokens", "full requests", "GiB a rank")


def table(rows: Sequence[Row]) -> list[str]:
    """A header, a line for each row, and once below what refuses them all."""
    keys, common = swept(rows), refused_in_all(rows)
    cells = [(*keys, *NUMBERS, "verdict")]
    cells += [(*(row.overrides.get(key, "") for key in keys), *_row(row, common)) for row in rows]
    lines = in_columns(cells, range(len(keys), len(keys) + len(NUMBERS)))
    if common and len(rows) > 1:
        lines += ["", f"refused in all of them: {', '.join(common)}"]
    return lines


def _row(row: Row, common: Collection[str]) -> tuple[str, ...]:
    if row.plan is None:
        return (*("" for _ in NUMBERS), f"error: {row.error.what}" if row.error is not None else "error")
    own = [rule for rule in row.refusals if rule not in common]
    verdict = f"refused: {', '.join(own)}" if own else "refused" if row.refusals else "can be served"
    return (*_numbers(row.plan), verdict)


def _numbers(plan: Plan) -> tuple[str, ...]:
    memory = gib(plan.budget.total()) if plan.budget.terms else "unknown"
    capacity = plan.capacity
    if capacity is None:
        return "unknown", "unknown", "unknown", memory
    tokens = "profiled" if capacity.tokens is None else f"{capacity.tokens:,}"
    requests = "profiled" if capacity.concurrency is None else f"{capacity.concurrency:.2f}"
    return f"{capacity.block_tokens:,}", tokens, requests, memory
