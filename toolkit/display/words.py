"""Rich's texts, made of what anybody may have written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit.display.plain import visible

if TYPE_CHECKING:
    from rich.text import Text


def words(text: str, style: str = "") -> Text:
    """A text that is shown as it is: a bracket in it is no markup, and a control character is an escape."""
    from rich.text import Text

    return Text(visible(text), style)


def joined(*parts: Text) -> Text:
    """Several in one line, each in its own style."""
    from rich.text import Text

    return Text.assemble(*parts)
