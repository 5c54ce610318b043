"""Finding and killing what is left of a run, however it got out of sight."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from toolkit.engine import proc
from toolkit.engine.warden import TRACKERS_S

AGAIN_S = 0.02


def remains(folder: str, group: int | None) -> tuple[proc.Process, ...]:
    """Living processes of a run: those that carry its marker, and the engine's process group and session.

    The marker is inherited over every fork and exec, also where a process leaves its group, session and parent.
    """
    here = os.getpid()
    return tuple(
        process
        for process in proc.all_processes()
        if not process.dead
        and process.pid != here
        and (group in (process.group, process.session) or proc.marker_of(process.pid) == folder)
    )


def sweep(folder: str, group: int | None, patience_s: float) -> tuple[proc.Process, ...]:
    """Kill all that remains of a run; what still lives after `patience_s` seconds is returned."""
    started = time.monotonic()
    deadline = started + patience_s
    while left := remains(folder, group):
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
