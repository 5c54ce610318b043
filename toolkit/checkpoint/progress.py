"""How a long step says how far it is; the packages print nothing, a verb decides what is shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Progress(Protocol):
    """Told of one step after the other: start, advance (often), done."""

    def start(self, what: str, total: int | None) -> None:
        """A step begins: what it does, and how many bytes it will handle (None if unknown)."""

    def advance(self, amount: int) -> None:
        """That many bytes more are handled; may be called from several threads."""

    def done(self) -> None:
        """The step that was started last has ended well."""


class Silent:
    """A progress that shows nothing."""

    def start(self, what: str, total: int | None) -> None:
        """Show nothing."""

    def advance(self, amount: int) -> None:
        """Show nothing."""

    def done(self) -> None:
        """Show nothing."""


@contextmanager
def step(progress: Progress, what: str, total: int | None) -> Iterator[Progress]:
    """One step; `done` is only told where it ends well."""
    progress.start(what, total)
    yield progress
    progress.done()
