"""What stands beside a plan on its page: another recipe's plan, and what would make this one fit."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.display import fit_text
from toolkit.display.compare_text import blocks
from toolkit.display.markup import Html, section, table, tag
from toolkit.planning.compare import Comparison
from toolkit.planning.fit import Fit


def beside(found: Comparison) -> Html:
    """The comparison, a table for each respect in which the two differ."""
    tables: list[Html] = []
    for block in blocks(found):
        head = (block.name, found.this, found.other, "gain" if block.numbers else "")
        tables.append(table(*block.rows, head=head, class_="beside numbers" if block.numbers else "beside"))
    return section(f"beside {found.other}", *(tables or [tag("p", "nothing differs")]))


def fitting(found: Fit) -> Html:
    """The proposals as they are typed, or that there is none."""
    return section("what would make it fit", tag("ul", *_proposals(found), class_="findings"))


def _proposals(found: Fit) -> Iterator[Html]:
    for proposal in found.proposals:
        yield tag("li", tag("code", proposal.overrides), tag("p", fit_text.effect(proposal), class_="soft"))
    if not found.proposals:
        _, *lines = fit_text.render(found).splitlines()
        yield tag("li", *(tag("p", line.strip()) for line in lines))
