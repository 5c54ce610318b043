"""What the parts of a running deployment tell its one event loop, through one queue."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.engine.answer import Answer


@dataclass(frozen=True)
class EngineExited:
    """The engine's first process ended: exit code, or the negative number of the signal that killed it."""

    code: int


@dataclass(frozen=True)
class EngineGone:
    """Not one process of the engine is left."""


@dataclass(frozen=True)
class WardenLost:
    """The warden ended without having seen the engine off."""


@dataclass(frozen=True)
class Signalled:
    """This process received a signal."""

    signum: int


@dataclass(frozen=True)
class Healthy:
    """The server on the planned port says that it is up; whether it is ours has yet to be seen."""


@dataclass(frozen=True)
class Answered:
    """The served model answered, and the answer passed its checks."""

    answer: Answer


@dataclass(frozen=True)
class ProbeFailed:
    """Readiness was asked for and denied."""

    error: Exception


@dataclass(frozen=True)
class WorkDone:
    """What was to be done with the server is done."""


@dataclass(frozen=True)
class WorkFailed:
    """It could not be done."""

    error: Exception


Event = EngineExited | EngineGone | WardenLost | Signalled | Healthy | Answered | ProbeFailed | WorkDone | WorkFailed
