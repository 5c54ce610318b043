"""Laid-out parts as the text that a verb prints, at the width of its terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable
from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

NARROWEST = 60
"""Columns below which lines are left to the terminal to break."""


def laid_out(parts: Iterable[RenderableType], *, elsewhere: int | None = None) -> str:
    """The parts below each other, without blanks at the ends of lines; coloured where standard output is a terminal.

    A rich Text is a line to be pasted and is never broken.
    elsewhere: columns where standard output is no terminal; None takes COLUMNS, or 80.
    """
    from rich.console import Console
    from rich.text import Text

    terminal, page = Console(), StringIO()
    width = terminal.width if terminal.is_terminal or elsewhere is None else elsewhere
    console = Console(file=page, width=max(width, NARROWEST), force_terminal=terminal.is_terminal, highlight=False)
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, Text))
    return re.sub(" +$", "", page.getvalue().rstrip("\n"), flags=re.MULTILINE)
