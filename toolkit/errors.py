"""The error tree: every error says what is wrong, where, why, and how to fix it.

Each class carries the process exit code that a verb ends with (docs/exit-codes.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Rejected:
    """One candidate that did not fit, and the reason."""

    candidate: str
    reason: str


class ToolkitError(Exception):
    """A mistake or a fault that the user can act on; printed without a traceback.

    what:     one sentence, enough for a user who reads nothing else.
    where:    the file, option or process concerned.
    why:      the cause, if known.
    fix:      what to type or change.
    rejected: where one of several candidates had to fit, each with its reason.
    """

    exit_code = 2

    def __init__(
        self, what: str, *, where: str = "", why: str = "", fix: str = "", rejected: Sequence[Rejected] = ()
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.why = why
        self.fix = fix
        self.rejected = tuple(rejected)

    def __str__(self) -> str:
        lines = [self.what]
        lines += [f"  {label}: {text}" for label, text in self._details() if text]
        lines += [f"  rejected: {item.candidate}: {item.reason}" for item in self.rejected]
        return "\n".join(lines)

    def _details(self) -> tuple[tuple[str, str], ...]:
        return (("where", self.where), ("why", self.why), ("fix", self.fix))


class ConfigurationError(ToolkitError):
    """A wrong option, file or value in the configuration."""

    exit_code = 2


class RefusedError(ToolkitError):
    """A plan that the rules refuse."""

    exit_code = 3


class CheckFailedError(ToolkitError):
    """An artifact (checkpoint, view, wheel) or a machine that does not pass its checks."""

    exit_code = 5


class EngineError(ToolkitError):
    """The engine did not start, or died."""

    exit_code = 6
