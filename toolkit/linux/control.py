"""The two process controls that Python does not offer."""

from __future__ import annotations

import ctypes
import os

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies, so that none gets out of sight. Raises OSError."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(signum: int) -> None:
    """Ask the kernel to send this process `signum` when its parent dies. Raises OSError."""
    _prctl(PR_SET_PDEATHSIG, signum)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), f"prctl({option})")
