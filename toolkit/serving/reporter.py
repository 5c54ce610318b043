"""How a run says how far it is; packages print nothing, so a verb chooses who listens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Reporter(Protocol):
    """Told of what happens, as it happens."""

    def notice(self, text: str) -> None:
        """Something that the user should know, and that stops nothing."""

    def phase(self, name: str) -> None:
        """A phase of the start or the stop begins."""

    def ready(self) -> None:
        """The start has succeeded; from here on the log is followed."""

    def log(self, lines: Sequence[str]) -> None:
        """The engine's log has new lines."""

    def log_end(self, lines: Sequence[str]) -> None:
        """The engine failed; these are the last lines of its log."""

    def close(self) -> None:
        """Nothing more will come."""
