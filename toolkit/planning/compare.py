"""Two plans side by side: what differs in their configuration, and what that buys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from toolkit.planning.budget import Place
from toolkit.planning.plan import Capacity, Plan

OF_THE_CALL = frozenset({"output", "compare", "fit", "html", "machine", "recipe"})
"""Top-level keys that say how a plan is printed or what a recipe says of itself."""
CAPACITY = ("tokens", "concurrency", "blocks", "blocks_per_request", "block_tokens", "bytes_per_block")


@dataclass(frozen=True)
class Changed:
    """One value that is not the same in both."""

    name: str
    this: Any
    other: Any
    """None for what is not there, or not known."""


@dataclass(frozen=True)
class Comparison:
    """This plan beside another."""

    this: str
    other: str
    """The recipes' names."""
    options: tuple[Changed, ...]
    """By dotted key."""
    capacity: tuple[Changed, ...]
    memory: tuple[Changed, ...]
    """Bytes of one rank by purpose; `together` is what the device holds."""
    switches: tuple[Changed, ...]
    findings: tuple[Changed, ...]
    """Rules that one of them meets, with what they mean there."""

    def to_json(self) -> dict[str, Any]:
        """The comparison as plain data."""
        return asdict(self)


def compare(
    this: Plan, values: Mapping[str, Any], other: Plan, other_values: Mapping[str, Any], name: str
) -> Comparison:
    """Compare two plans.

    values, other_values: their configurations as nested plain data. name: the other recipe's.
    """
    memories = [{**plan.memory, **_together(plan)} for plan in (this, other)]
    return Comparison(
        this=this.recipe or "this plan",
        other=name,
        options=tuple(_changed(dict(_leaves(values)), dict(_leaves(other_values)))),
        capacity=tuple(_changed(_capacity(this.capacity), _capacity(other.capacity))),
        memory=tuple(_changed(*memories)),
        switches=tuple(_changed(*({switch.name: switch.value for switch in plan.switches} for plan in (this, other)))),
        findings=tuple(
            _changed(*({found.rule: found.severity.value for found in plan.findings} for plan in (this, other)))
        ),
    )


def _changed(this: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[Changed]:
    for name in dict.fromkeys((*this, *other)):
        if this.get(name) != other.get(name):
            yield Changed(name, this.get(name), other.get(name))


def _capacity(capacity: Capacity | None) -> dict[str, Any]:
    return {name: getattr(capacity, name) for name in CAPACITY} if capacity is not None else {}


def _together(plan: Plan) -> dict[str, int]:
    return {"together": plan.budget.total(Place.device)} if plan.budget.terms else {}


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Values by dotted key; what a checkpoint's own config.json says is left to the plan's numbers."""
    for name, value in values.items():
        key = f"{prefix}.{name}" if prefix else str(name)
        if key in OF_THE_CALL or key.startswith("checkpoint.declared"):
            continue
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, key)
        else:
            yield key, value
