"""The bound of every whole number that comes from a file or a command line: what 64 bits hold.

Python's own have none, and a size of hundreds of digits would end far from its place, at the first division.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

LARGEST = 2**63 - 1


def too_large(value: Any, where: str = "", most: int = LARGEST) -> Iterator[str]:
    """The dotted places of numbers beyond `most`, either way, in plain nested data."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from too_large(item, f"{where}.{name}" if where else str(name), most)
    elif isinstance(value, (list, tuple)):
        for at, item in enumerate(value):
            yield from too_large(item, f"{where}[{at}]", most)
    elif isinstance(value, int) and abs(value) > most:
        yield where
