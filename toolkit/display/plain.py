"""Texts of strangers as a terminal and a page may show them: names of models, GPUs and files are anybody's."""

from __future__ import annotations

import re
from itertools import pairwise

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What moves, colours or clears instead of being read: control characters but tab and newline, and those that turn the
direction of writing."""
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def visible(text: str, *, coloured: bool = False) -> str:
    """The text with its escape in the place of each control character.

    coloured: colours are kept, as the text was laid out here of parts that were made visible before.
    """
    if not coloured:
        return CONTROL.sub(_escape, text)
    ends = [0, *(at for found in COLOUR.finditer(text) for at in found.span()), len(text)]
    pieces = [text[begin:end] for begin, end in pairwise(ends)]
    return "".join(piece if number % 2 else visible(piece) for number, piece in enumerate(pieces))


def _escape(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode("ascii")
