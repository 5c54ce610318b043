"""The state of a run: written by its `serve` alone, read by `status` and `stop` from anywhere."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from toolkit.linux.proc import Identity, identify
from toolkit.runs.atomic import write_text

STATE_SCHEMA = 1
LATEST = 2**33
"""Seconds since the epoch, in the year 2242: no clock shows more, and no wait lasts as long."""


class State(Enum):
    """Where a run stands."""

    stopped = "stopped"
    starting = "starting"
    ready = "ready"
    stopping = "stopping"


NEXT: Mapping[State, frozenset[State]] = {
    State.stopped: frozenset({State.starting}),
    State.starting: frozenset({State.ready, State.stopping, State.stopped}),
    State.ready: frozenset({State.stopping, State.stopped}),
    State.stopping: frozenset({State.stopped}),
}
"""The transitions that exist; an engine that dies goes straight to stopped."""


@dataclass(frozen=True)
class RunState:
    """One run at one moment."""

    run: str
    state: State
    since: float
    """Seconds since the epoch at which this state began."""
    model: str
    address: str
    grace_s: float
    """Seconds that a polite stop may take."""
    serve: Identity
    """The process that writes this file."""
    warden: Identity | None = None
    engine: Identity | None = None
    reason: str = ""
    """Why the run ended; empty before."""

    @property
    def stale(self) -> bool:
        """Whether the file says that the run lives while the process that would have updated it is gone."""
        return self.state is not State.stopped and not self.serve.alive

    def to_json(self) -> dict[str, Any]:
        """The state as plain data (schema STATE_SCHEMA)."""
        return {"schema": STATE_SCHEMA, **asdict(self), "state": self.state.value}


class StateFile:
    """The one writer of a run's state."""

    def __init__(self, path: Path, run: str, model: str, address: str, grace_s: float) -> None:
        self._path = path
        self.current = RunState(run, State.stopped, time.time(), model, address, grace_s, identify(os.getpid()))
        self._write()

    def move(self, state: State, reason: str = "") -> None:
        """Go to another state.

        Raises:
            ValueError: there is no such transition.
        """
        if state not in NEXT[self.current.state]:
            raise ValueError(f"no transition from {self.current.state.value} to {state.value}")
        self.current = replace(self.current, state=state, since=time.time(), reason=reason)
        self._write()  # what is current is right even where this fails

    def started(self, warden: int, engine: int) -> None:
        """Record the engine's processes; one that has died already is left out."""
        self.current = replace(self.current, warden=_identity(warden), engine=_identity(engine))
        self._write()

    def _write(self) -> None:
        write_text(self._path, json.dumps(self.current.to_json(), indent=1) + "\n")


class StateError(Exception):
    """A state file that cannot be understood; its text is the reason."""


def read_state(path: Path) -> RunState | None:
    """The state in a file; None where there is none that this version understands."""
    try:
        return load_state(path)
    except (OSError, StateError):
        return None


def load_state(path: Path) -> RunState:
    """The state in a file.

    Raises:
        OSError: it cannot be read.
        StateError: it is damaged, or of another schema.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StateError(f"it is not JSON: {error}") from error
    if not isinstance(data, dict) or "schema" not in data:
        raise StateError("it has no schema version")
    if data.pop("schema") != STATE_SCHEMA:
        raise StateError(f"its schema is another than {STATE_SCHEMA}, the one that this toolkit reads")
    try:
        for name in ("serve", "warden", "engine"):
            data[name] = Identity(**data[name]) if data[name] else None
        state = RunState(**{**data, "state": State(data["state"])})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StateError(f"a value is missing or wrong: {error}") from error
    if not _is_sound(state):
        raise StateError("a value has a wrong type")
    return state


def _is_sound(state: RunState) -> bool:
    """Whether every value has its type: this file may have been edited, and what it names is signalled."""
    others = [process for process in (state.warden, state.engine) if process is not None]
    texts = (state.run, state.model, state.address, state.reason)
    seconds = (state.since, state.grace_s)
    return (
        all(isinstance(text, str) for text in texts)
        and all(type(value) in (int, float) and 0 <= value < LATEST for value in seconds)
        and isinstance(state.serve, Identity)
        and all(_names_a_process(process) for process in (state.serve, *others))
    )


def _names_a_process(process: Identity) -> bool:
    numbers = type(process.pid) is int and process.pid > 0 and type(process.started) is int
    return numbers and isinstance(process.boot, str)


def _identity(pid: int) -> Identity | None:
    try:
        return identify(pid)
    except ProcessLookupError:
        return None
