"""A Plan as one page of HTML that needs nothing else: no script, no font, no image from anywhere.

Recipes and checkpoints come from strangers, so every text goes through `markup`, which escapes it; the page's own
policy forbids scripts and requests besides.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from toolkit.display.markup import Html, section, table, tag
from toolkit.display.memory_bar import Scale, bar, coloured
from toolkit.display.plan_style import STYLE
from toolkit.display.plan_text import (
    MARKS,
    UNKNOWN,
    alike,
    at,
    by_option,
    capacity_rows,
    engine_text,
    gib,
    origin_text,
    value_text,
)
from toolkit.planning.budget import Budget, Place, Term
from toolkit.planning.plan import Finding, Plan, SwitchValue

POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(
    plan: Plan,
    origins: Mapping[str, str],
    values: Mapping[str, Any],
    shipped: PurePath,
    scale: Scale,
    *,
    sides: Sequence[Html] = (),
) -> str:
    """The whole document.

    origins, values, shipped: as for the plan's text. scale: what the memory is held against.
    sides: sections about more than this plan, below its findings.
    """
    title = f"{plan.recipe or 'no recipe'}: {plan.model}"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("title", title),
        tag("style", Html(STYLE)),
    )
    found = (*_sizes(plan, scale), *_findings(plan.findings), *sides)
    told = (*_switches(plan.switches), _command(plan), _configuration(origins, values, shipped))
    body = tag("body", _header(plan, values, title), *found, *told)
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _header(plan: Plan, values: Mapping[str, Any], title: str) -> Html:
    word, colour = ("refused: serve would not start this plan", "refuse")
    if not plan.refused:
        word, colour = "this plan can be served", "good"
    return tag(
        "header",
        tag("h1", title),
        tag("p", engine_text(plan, values)),
        tag("p", word, class_=f"verdict {colour}"),
    )


def _sizes(plan: Plan, scale: Scale) -> Iterator[Html]:
    if plan.budget.terms:
        yield section("memory of one rank", bar(plan.budget, scale), *_memory(plan.budget, scale))
    if plan.capacity is not None:
        rows = reversed(list(capacity_rows(plan.capacity)))
        cells = [tag("div", tag("dt", label), _value(shown)) for label, shown in rows]
        yield section("KV cache", tag("dl", *cells))


def _value(shown: str) -> Html:
    return tag("dd", shown, class_="unknown" if shown == UNKNOWN else "number")


def _memory(budget: Budget, scale: Scale) -> Iterator[Html]:
    yield tag("p", _against(budget, scale), class_="soft")
    rows = [
        _term(term, colour, name) for (term, colour), name in zip(coloured(budget), budget.by_purpose(), strict=True)
    ]
    margins = "what the terms may be larger by, all of them at once"
    rows.append((tag("b", "together"), f"{gib(budget.total())} GiB", "", f"up to {gib(budget.most())} GiB"))
    rows.append((_named("margin", "all margins"), f"{gib(budget.most() - budget.total())} GiB", "", margins))
    yield table(*rows, head=("purpose", "size", "margin", "source"), class_="memory")
    if budget.unknown:
        yield tag("p", f"Not counted, as the plan does not decide it: {', '.join(budget.unknown)}.", class_="soft")


def _term(term: Term, colour: str, name: str) -> tuple[str, ...]:
    colour_class = f"k{colour}" if term.place is Place.device else "elsewhere"
    margin = f"+{term.margin:.0%}" if term.margin else ""
    return _named(colour_class, name), f"{gib(term.bytes)} GiB", margin, term.source


def _named(colour: str, name: str) -> Html:
    return tag("span", tag("i", class_=colour), name)


def _against(budget: Budget, scale: Scale) -> str:
    most = f"up to {gib(budget.most())} GiB with all margins"
    if not scale.memory:
        return f"{gib(budget.total())} GiB, {most}"
    limit = f"; the engine's share is {gib(scale.limit)} GiB (dashed)" if 0 < scale.limit < scale.memory else ""
    return f"{gib(budget.total())} of the GPU's {gib(scale.memory)} GiB, {most}{limit}"


def _findings(findings: Sequence[Finding]) -> Iterator[Html]:
    """The gravest first."""
    if not findings:
        return
    items = []
    for severity, (label, _) in reversed(MARKS.items()):
        for names, finding in alike([finding for finding in findings if finding.severity is severity]):
            where = f" at {finding.where}" if finding.where else ""
            said = [tag("p", tag("b", label, class_=severity.value), " ", tag("b", names), where)]
            said += [tag("p", finding.message)]
            said += [tag("p", tag("b", "fix "), finding.fix, class_="soft")] if finding.fix else []
            items.append(tag("li", *said))
    yield section("findings", tag("ul", *items, class_="findings"))


def _switches(switches: Sequence[SwitchValue]) -> Iterator[Html]:
    rows = [
        (tag("code", switch.name), "on" if switch.value else "off", f"{switch.source}: {switch.reason}")
        for switch in switches
    ]
    if rows:
        yield section("switches", table(*rows, head=("switch", "value", "why"), class_="switches"))


def _command(plan: Plan) -> Html:
    variables = "\n".join(f"{name}={shlex.quote(value)}" for name, value in plan.env.items())
    inherited = tag("p", f"inherits {' '.join(plan.inherit)}", class_="soft")
    return section("engine", tag("pre", by_option(plan.argv)), tag("pre", variables), inherited)


def _configuration(origins: Mapping[str, str], values: Mapping[str, Any], shipped: PurePath) -> Html:
    rows = [
        (tag("code", key), value_text(at(values, key)), origin_text(origin, shipped))
        for key, origin in origins.items()
        if origin != "default"
    ]
    return section("configuration, by what set it", table(*rows, head=("option", "value", "set by"), class_="settings"))
