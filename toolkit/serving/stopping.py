"""Stopping a run from another shell, and waiting until nothing of it is left."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from dataclasses import dataclass

from toolkit.engine.sweep import Scent, sweep
from toolkit.linux import proc
from toolkit.runs.listing import Seen

MARGIN_S = 15.0
"""Beyond a polite stop's own time, `serve` may need this long to kill and to write its records."""
PATIENCE_S = 10.0
LONGEST_POLL_MS = 2**31 - 1
"""The kernel takes no more; a state file may say anything."""


@dataclass(frozen=True)
class Stopped:
    """How a run was ended."""

    run: str
    how: str
    """`asked` (serve stopped it), `killed` (serve did not, so it was killed) or `cleared` (serve was dead already)."""
    survivors: tuple[proc.Process, ...]


def stop(run: Seen) -> Stopped:
    """Ask the run's `serve` to stop; kill it when it does not, and whatever is left after it."""
    how = _end(run.state.serve, run.state.grace_s + MARGIN_S)
    return Stopped(run.folder.name, how, sweep(Scent(str(run.folder.path)), PATIENCE_S))


def _end(serve: proc.Identity, patience_s: float) -> str:
    try:
        handle = os.pidfd_open(serve.pid)
    except ProcessLookupError:
        return "cleared"
    try:
        if not serve.alive:  # looked at after the handle was taken: from here on the PID cannot be reused
            return "cleared"
        for signum, seconds, how in ((signal.SIGTERM, patience_s, "asked"), (signal.SIGKILL, PATIENCE_S, "killed")):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signum)
            if _ended(handle, seconds):
                return how
        return "killed"
    finally:
        os.close(handle)


def _ended(handle: int, seconds: float) -> bool:
    """Whether the process ends within that time; its handle then becomes readable."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(min(1000 * seconds, LONGEST_POLL_MS)))
