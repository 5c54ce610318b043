"""What is said when an engine does not start, or dies."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

from toolkit.counted import counted
from toolkit.engine import port
from toolkit.engine.known_causes import diagnose
from toolkit.engine.log import read_end
from toolkit.errors import EngineError
from toolkit.linux import proc
from toolkit.planning.plan import ServerAddress


def died(code: int, phase: str, log: Path) -> EngineError:
    """The engine's first process ended; `phase` is what it was doing."""
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    found = diagnose(read_end(log), code)
    if found is None:
        return EngineError(f"the engine died while {phase}: it {how}", where=str(log), why="the log's last lines tell")
    what = f"the engine died while {phase}: {found.cause}"
    return EngineError(what, where=str(log), why=f"it {how}; {found.evidence}", fix=found.fix)


def no_progress(seconds: float, phase: str, log: Path) -> EngineError:
    """The deadline passed without log lines, work or reading."""
    return EngineError(
        f"the engine made no progress for {seconds:g} s while {phase}, and was stopped",
        where=str(log),
        why="its log did not grow, and it neither computed nor read",
        fix="look at the log's last lines; a slow but sound start needs a longer engine.start_timeout_s",
    )


def warden_lost() -> EngineError:
    """Someone killed the supervising process."""
    return EngineError(
        "the process that supervises the engine was killed, and the engine with it",
        why="killed from outside, perhaps by the kernel's out-of-memory killer (dmesg says so)",
        fix="start again",
    )


def port_taken(address: ServerAddress) -> EngineError:
    """Something listens on the port that the plan found free."""
    return EngineError(
        f"port {address.port} was taken between the plan and the start",
        where=address.url,
        why=f"{port.describe_holder(address.port)} listens on it",
        fix="set server.port to a free one, or stop that process",
    )


def foreign_server(address: ServerAddress) -> EngineError:
    """Readiness was answered by a process that is not ours."""
    return EngineError(
        f"a different server answers on port {address.port}",
        where=address.url,
        why=f"{port.describe_holder(address.port)} listens on it, which is not the engine that was started",
        fix="set server.port to a free one, or stop that process",
    )


def survived(processes: Sequence[proc.Process]) -> EngineError:
    """Even a kill did not end them."""
    names = ", ".join(f"{process.pid} ({proc.title(process.pid)[:60]})" for process in processes)
    return EngineError(
        counted(len(processes), "engine process does not die", "engine processes do not die"),
        where=names,
        why="a killed process stays only while it waits inside a driver",
        fix="wait; if they stay, reset the GPU or reboot",
    )
