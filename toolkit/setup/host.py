"""Whether the pinned packages have builds for this machine at all."""

from __future__ import annotations

import os
import sys

OLDEST_GLIBC = (2, 31)
"""What llguidance's wheel asks for, which vLLM needs; the other pinned packages have builds for 2.28."""


def unfit() -> str | None:
    """Why no pinned package can be installed here; None where they can."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        return " ".join(os.uname()[::4])
    try:
        said = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except ValueError:
        said = ""
    name, _, version = said.partition(" ")
    parts = version.split(".")
    if name != "glibc" or not all(part.isdecimal() for part in parts[:2]):
        return "the C library is not glibc"
    if tuple(map(int, parts[:2])) < OLDEST_GLIBC:
        return f"the C library is {said}, older than {'.'.join(map(str, OLDEST_GLIBC))}"
    return None
