"""A progress that remembers what it was told."""

from __future__ import annotations


class Recorded:
    """Steps by name, and the bytes that each was told."""

    def __init__(self) -> None:
        self.steps: dict[str, int] = {}
        self.totals: dict[str, int | None] = {}
        self.ended: list[str] = []
        self._current = ""

    def start(self, what: str, total: int | None) -> None:
        self._current = what
        self.steps[what] = 0
        self.totals[what] = total

    def advance(self, amount: int) -> None:
        self.steps[self._current] += amount

    def done(self) -> None:
        self.ended.append(self._current)
