"""The engine's processes, as `serve` sees them: started behind a warden, stopped together, none left over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO

import toolkit
from toolkit.engine.events import EngineExited, EngineGone, Event, WardenLost
from toolkit.engine.sweep import Scent, sweep
from toolkit.errors import EngineError
from toolkit.linux import control, proc

WARDEN = "import sys; sys.path.insert(0, sys.argv[1]); from toolkit.engine.warden import main; main()"
LOST_S = 10.0
"""Seconds that killed processes get to disappear; only one that waits for a device takes longer."""


@dataclass(frozen=True)
class Launch:
    """What is started, and where its output goes."""

    argv: Sequence[str]
    env: Mapping[str, str]
    """The whole environment, secrets included; it must carry proc.MARKER with `folder` as its value."""
    folder: Path
    """The run's folder; the engine's working directory, so that no source tree there shadows a package."""
    log: Path
    grace_s: float
    """Seconds that a polite stop may take before everything is killed."""


@dataclass(frozen=True)
class Warden:
    """The supervising process and our ends of its two pipes."""

    process: subprocess.Popen[bytes]
    orders: BinaryIO
    reports: BinaryIO

    def order(self, line: str) -> None:
        """Send one line; a warden that has gone is announced by the end of its reports."""
        with suppress(BrokenPipeError):
            self.orders.write(line.encode() + b"\n")
            self.orders.flush()

    def report(self) -> dict[str, Any]:
        """The next report; empty at their end."""
        line = self.reports.readline()
        said: dict[str, Any] = json.loads(line) if line.endswith(b"\n") else {}
        return said

    def announce(self, inbox: SimpleQueue[Event]) -> None:
        """Turn reports into events until the engine is gone."""
        with self.reports:
            while said := self.report():
                if said["event"] == "exited":
                    inbox.put(EngineExited(said["code"]))
                elif said["event"] == "gone":
                    inbox.put(EngineGone())
                    return
        inbox.put(WardenLost())


class EngineProcess:
    """An engine that runs; its end arrives as events in the inbox that it was started with."""

    def __init__(self, warden: Warden, pid: int, folder: Path) -> None:
        self.pid = pid
        self._warden = warden
        self._folder = folder
        self._seen: set[tuple[int, int]] = set()

    @property
    def warden_pid(self) -> int:
        """PID of the process that kills the engine when this one dies."""
        return self._warden.process.pid

    def processes(self) -> list[proc.Process]:
        """Every process of the engine; make_sure() will know them again."""
        found = [p for p in proc.descendants(self.warden_pid, proc.all_processes()) if not p.dead]
        self._seen |= {(process.pid, process.started) for process in found}
        return found

    def terminate(self) -> None:
        """Stop politely; whatever is left after the grace is killed."""
        self._warden.order("term")

    def kill(self) -> None:
        """Kill every process of the engine now."""
        self._warden.order("kill")

    def make_sure(self) -> tuple[proc.Process, ...]:
        """After the end: kill what the warden did not, and return what survived even that."""
        self._warden.process.kill()
        self._warden.process.wait()
        with suppress(BrokenPipeError):
            self._warden.orders.close()
        return sweep(Scent(str(self._folder), self.pid, frozenset(self._seen)), LOST_S)


def start(launch: Launch, inbox: SimpleQueue[Event]) -> EngineProcess:
    """Start the engine; its end is announced in `inbox`.

    Raises:
        EngineError: the program could not be executed.
    """
    control.adopt_orphans()  # should the warden be killed, its descendants come to us
    warden = _start_warden(launch)
    warden.order(json.dumps(_order(launch)))  # over the pipe, as a command line is for everyone to read
    first = warden.report()
    if first.get("event") != "started":
        warden.process.wait()
        why = first.get("error", f"the supervising process ended; see {launch.log}")
        raise EngineError(
            "the engine's program could not be started", where=launch.argv[0], why=why, fix="check engine.python"
        )
    threading.Thread(target=warden.announce, args=(inbox,), daemon=True, name="warden-reports").start()
    return EngineProcess(warden, int(first["pid"]), launch.folder)


def _start_warden(launch: Launch) -> Warden:
    package = str(Path(toolkit.__file__).parent.parent)
    orders_in, orders_out = os.pipe()
    reports_in, reports_out = os.pipe()
    with launch.log.open("ab") as log, open(orders_in, "rb") as stdin, open(reports_out, "wb") as stdout:  # noqa: PTH123
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", WARDEN, package],
            env={proc.MARKER: str(launch.folder)},
            stdin=stdin,
            stdout=stdout,
            stderr=log,
            start_new_session=True,  # a terminal's Ctrl-C is for `serve` alone
        )
    return Warden(process, os.fdopen(orders_out, "wb"), os.fdopen(reports_in, "rb"))


def _order(launch: Launch) -> dict[str, Any]:
    return {
        "argv": list(launch.argv),
        "env": dict(launch.env),
        "folder": str(launch.folder),
        "log": str(launch.log),
        "grace_s": launch.grace_s,
    }
