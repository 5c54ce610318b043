"""Finding and killing what is left of a run, however it got out of sight."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass

from toolkit.engine.warden import TRACKERS_S
from toolkit.linux import proc

AGAIN_S = 0.02


@dataclass(frozen=True)
class Scent:
    """What the processes of a run are known by."""

    folder: str
    """The marker's value; inherited over every fork and exec, also where a process leaves group, session and parent."""
    group: int | None = None
    """The engine's process group and session, as long as its number cannot have been reused."""
    seen: frozenset[tuple[int, int]] = frozenset()
    """PID and start of processes that were seen below the engine, whatever they made of themselves since."""

    def fits(self, process: proc.Process) -> bool:
        """Whether a process belongs to the run."""
        return (
            (process.pid, process.started) in self.seen
            or self.group in (process.group, process.session)
            or proc.marker_of(process.pid) == self.folder
        )


def remains(scent: Scent) -> tuple[proc.Process, ...]:
    """Living processes of a run, without this one."""
    here = os.getpid()
    return tuple(
        process for process in proc.all_processes() if not process.dead and process.pid != here and scent.fits(process)
    )


def sweep(scent: Scent, patience_s: float) -> tuple[proc.Process, ...]:
    """Kill all that remains of a run; what still lives after `patience_s` seconds is returned."""
    started = time.monotonic()
    deadline = started + patience_s
    while left := remains(scent):
        spare_trackers = time.monotonic() - started < TRACKERS_S
        for process in left:
            if not (spare_trackers and proc.is_resource_tracker(process.pid)):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(process.pid, signal.SIGKILL)
        _reap_adopted(left)
        if time.monotonic() >= deadline:
            return left
        time.sleep(AGAIN_S)
    return ()


def _reap_adopted(processes: tuple[proc.Process, ...]) -> None:
    """Collect those that became our children when their own parent died."""
    for process in processes:
        with suppress(ChildProcessError):
            os.waitpid(process.pid, os.WNOHANG)
