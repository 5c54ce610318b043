"""HTML that cannot be broken by what stands in it: every text is escaped unless it was made here."""

from __future__ import annotations

import html
import re

VOID = frozenset({"meta", "rect", "line", "br"})
"""Elements without an end tag; in SVG they close themselves."""
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
"""What HTML may not hold in any spelling: control characters, and halves of a surrogate pair."""


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(value: str) -> Html:
    """A text as HTML shows it."""
    return value if isinstance(value, Html) else Html(html.escape(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", value)))


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
