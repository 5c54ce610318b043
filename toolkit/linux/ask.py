"""Asking a program that may hang: nothing that it started is left, whether it answers or not."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence


def answer(command: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[bytes]:
    """What a program writes on both streams, without input.

    Raises:
        OSError: it cannot be started.
        subprocess.TimeoutExpired: it did not end within `timeout_s` seconds.
        subprocess.CalledProcessError: it ended with another code than 0.
    """
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # its children are then known by its number
    ) as process:
        try:
            out, errors = process.communicate(timeout=timeout_s)
        except BaseException:  # also a Ctrl-C, which no longer reaches it by itself
            os.killpg(process.pid, signal.SIGKILL)  # not reaped yet, so the number is still its own
            raise
    done = subprocess.CompletedProcess(command, process.returncode, out, errors)
    done.check_returncode()
    return done


def last_line(written: bytes) -> bytes:
    """The answer of a program that may have printed something before: a Python with a talkative .pth file."""
    return written.rstrip().rpartition(b"\n")[2]
