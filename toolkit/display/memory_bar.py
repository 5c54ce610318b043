"""One rank's memory as a stacked bar, drawn to the scale of the GPU where that is known."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.display.markup import Html, tag
from toolkit.display.plan_text import gib
from toolkit.planning.budget import Budget, Place, Term
from toolkit.planning.plan import Plan

COLOURS = "0123456789abcdef"
"""Colours of terms in the style sheet, k0 to kf; further terms begin again."""
WIDTH, HEIGHT = 1000.0, 40.0
"""The drawing's own units; the page stretches it to its width, so that no text may stand inside."""


@dataclass(frozen=True)
class Scale:
    """What the bar is held against."""

    memory: int = 0
    """Bytes of the GPU; 0 where they are not known."""
    limit: int = 0
    """Bytes that the engine may take of it."""

    @classmethod
    def of(cls, plan: Plan, memory: int, share: float) -> Scale:
        """The GPU's bytes, and where its memory is profiled the share of them that the engine may take."""
        memory = max(0, memory)
        profiled = plan.capacity is not None and plan.capacity.blocks is None
        return cls(memory, int(memory * share) if profiled else memory)


def bar(budget: Budget, scale: Scale) -> Html:
    """The terms of the device's memory side by side, then what all margins add, and where the limit lies."""
    whole = max(scale.memory, budget.most(), 1)
    beside = budget.beside_share()
    if beside.terms and 0 < scale.limit < scale.memory:  # what the engine's share does not hold stands behind it
        share = budget.in_share()
        begin = min(max(scale.limit, share.most()), whole - beside.most())
        drawn = [*_row(share, budget, 0, whole), *_row(beside, budget, begin, whole)]
    else:
        drawn = _row(budget, budget, 0, whole)
    if 0 < scale.limit < whole:
        at = f"{WIDTH * scale.limit / whole:.2f}"
        drawn.append(tag("line", x1=at, x2=at, y1="0", y2=f"{HEIGHT:g}", class_="limit"))
    label = f"{gib(budget.total())} GiB of {gib(whole)} GiB" if scale.memory else f"{gib(budget.total())} GiB"
    box = {"viewBox": f"0 0 {WIDTH:g} {HEIGHT:g}", "preserveAspectRatio": "none"}
    return tag("svg", *drawn, role="img", aria_label=f"memory of one rank: {label}", class_="bar", **box)


def _row(part: Budget, budget: Budget, begin: int, whole: int) -> list[Html]:
    """The device's terms of a part of the budget and their margins, one behind the other."""
    drawn, left = [], WIDTH * begin / whole
    for term, colour in coloured(budget):
        if term.place is Place.device and term in part.terms:
            width = WIDTH * term.bytes / whole
            drawn.append(_part(left, width, f"k{colour}", f"{term.purpose}: {gib(term.bytes)} GiB"))
            left += width
    margins = part.most() - part.total()
    drawn.append(_part(left, WIDTH * margins / whole, "margin", f"all margins: {gib(margins)} GiB"))
    return drawn


def coloured(budget: Budget) -> tuple[tuple[Term, str], ...]:
    """Each term with the name of its colour."""
    return tuple((term, COLOURS[number % len(COLOURS)]) for number, term in enumerate(budget.terms))


def _part(left: float, width: float, colour: str, title: str) -> Html:
    size = {"x": f"{left:.2f}", "y": "0", "width": f"{width:.2f}", "height": f"{HEIGHT:g}"}
    return tag("g", tag("title", title), tag("rect", class_=colour, **size))
