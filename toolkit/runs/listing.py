"""The runs of a machine, as seen from another shell."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit.counted import counted
from toolkit.errors import CheckFailedError, ConfigurationError
from toolkit.linux import proc
from toolkit.runs.folder import RunFolder, all_runs
from toolkit.runs.state import RunState, State, StateError, load_state


@dataclass(frozen=True)
class Seen:
    """One run, and the processes that it has."""

    folder: RunFolder
    state: RunState
    processes: tuple[proc.Process, ...]
    """Living processes of its engine."""

    @property
    def alive(self) -> bool:
        """Whether anything of it runs."""
        return (self.state.serve.alive and self.state.state is not State.stopped) or bool(self.processes)

    @property
    def verdict(self) -> str:
        """The state in words, a stale one recognised."""
        if not self.state.stale:
            return self.state.state.value
        left = "no engine process remains"
        if self.processes:
            left = counted(len(self.processes), "engine process remains", "engine processes remain")
        return f"dead (it was {self.state.state.value} when its serve process was killed; {left})"

    def to_json(self) -> dict[str, Any]:
        """The run as plain data."""
        pids = [process.pid for process in self.processes]
        seen = {"alive": self.alive, "stale": self.state.stale, "verdict": self.verdict, "engine_processes": pids}
        return {**self.state.to_json(), **seen, "folder": str(self.folder.path)}


@dataclass(frozen=True)
class Damaged:
    """A run whose state cannot be understood, though its engine may live."""

    folder: RunFolder
    why: str
    processes: tuple[proc.Process, ...]

    @property
    def error(self) -> CheckFailedError:
        """What is wrong, where, why, and what to do about it."""
        pids = " ".join(str(process.pid) for process in self.processes)
        stop = f"end its engine first (kill {pids}), then " if pids else ""
        return CheckFailedError(
            f"the state of run {self.folder.name} is damaged",
            where=str(self.folder.state),
            why=self.why,
            fix=f"{stop}remove the folder {self.folder.path}; its log and receipt can still be read",
        )

    def to_json(self) -> dict[str, Any]:
        """The run as plain data."""
        error, pids = self.error, [process.pid for process in self.processes]
        told = {"what": error.what, "where": error.where, "why": error.why, "fix": error.fix}
        return {"run": self.folder.name, "folder": str(self.folder.path), "engine_processes": pids, "error": told}


@dataclass(frozen=True)
class Runs:
    """All runs below a folder, oldest first."""

    seen: tuple[Seen, ...]
    damaged: tuple[Damaged, ...] = ()


def look(root: Path) -> Runs:
    """Every run below `root`; ConfigurationError where it is no folder or may not be read."""
    living: dict[str, list[proc.Process]] = {}
    for process in proc.all_processes():
        marker = None if process.dead else proc.marker_of(process.pid)
        if marker is not None:
            living.setdefault(marker, []).append(process)
    seen, damaged = [], []
    for folder in all_runs(root):
        left = living.get(str(folder.path), [])
        try:
            state = load_state(folder.state)
        except FileNotFoundError:
            continue  # removed just now
        except (OSError, StateError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            damaged.append(Damaged(folder, why or str(error), tuple(left)))
        else:
            seen.append(Seen(folder, state, tuple(process for process in left if not _supervises(process, state))))
    return Runs(tuple(seen), tuple(damaged))


def choose(runs: Runs, name: str | None, root: Path) -> Seen:
    """The named run, or the only one that is alive.

    Raises:
        ConfigurationError: there is no such run, none is alive, or several are.
        CheckFailedError: its state is damaged; without a name, that of a run whose engine lives.
    """
    for damaged in runs.damaged:
        if damaged.folder.name == name or (name is None and damaged.processes):
            raise damaged.error
    if name is not None:
        found = next((run for run in runs.seen if run.folder.name == name), None)
        if found is None:
            known = ", ".join(run.folder.name for run in runs.seen if run.alive) or "none"
            raise ConfigurationError(f"no run is named {name}", where=str(root), why=f"alive: {known}")
        return found
    alive = [run for run in runs.seen if run.alive]
    if not alive:
        raise ConfigurationError("no run is alive", where=str(root), fix="toolkit-status lists earlier ones")
    if len(alive) > 1:
        names = ", ".join(run.folder.name for run in alive)
        raise ConfigurationError(
            counted(len(alive), "run is alive", "runs are alive"), where=names, fix="name one with run=NAME"
        )
    return alive[0]


def _supervises(process: proc.Process, state: RunState) -> bool:
    return state.warden is not None and process.pid == state.warden.pid
