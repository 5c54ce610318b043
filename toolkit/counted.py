"""A number with its noun, as every text of the toolkit says it: "1 fault", "12 faults", "1,024 bytes"."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """The number in groups of three digits with `one`, or with `many` (`one` and an s if left out) unless it is 1."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
