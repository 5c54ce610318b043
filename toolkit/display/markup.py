"""HTML that cannot be broken by what stands in it: every text is escaped unless it was made here."""

from __future__ import annotations

import html
import re

from toolkit.display.plain import visible

VOID = frozenset({"meta", "rect", "line", "br"})
"""Elements without an end tag; in SVG they close themselves."""
_HALVES = re.compile(r"[\ud800-\udfff]")
"""Halves of a surrogate pair, which no HTML may hold; names of files that are no UTF-8 have them."""


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(value: str) -> Html:
    """A text as HTML shows it, without what a page may not hold and what would turn its direction."""
    if isinstance(value, Html):
        return value
    return Html(html.escape(_HALVES.sub("\N{REPLACEMENT CHARACTER}", visible(value))))


def tag(name: str, /, *children: str, **attributes: str) -> Html:
    """An element; children and attributes are texts, or HTML that was made here.

    An attribute that is a word of Python's ends in an underscore, and dashes are written as underscores.
    """
    written = "".join(f' {key.rstrip("_").replace("_", "-")}="{text(value)}"' for key, value in attributes.items())
    if name in VOID:
        return Html(f"<{name}{written}/>")
    return Html(f"<{name}{written}>{''.join(map(text, children))}</{name}>")


def table(*rows: tuple[str, ...], head: tuple[str, ...] = (), class_: str = "") -> Html:
    """A table that scrolls by itself where the page is narrow."""
    header = tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in head))) if head else Html("")
    body = tag("tbody", *(tag("tr", *(tag("td", cell) for cell in row)) for row in rows))
    return tag("div", tag("table", header, body, class_=class_), class_="scroll")


def section(title: str, *content: str) -> Html:
    """A part of the page below its own heading."""
    return tag("section", tag("h2", title), *content)
