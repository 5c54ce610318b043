"""Several faults of one artifact, told in one error."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.counted import counted
from toolkit.errors import CheckFailedError, Rejected

_SHOWN = 20


def check_failed(faults: Sequence[Rejected], *, where: str, fix: str) -> CheckFailedError:
    """The error for these faults (at least one): the first is its first line, the others are listed below it."""
    first, *others = faults
    what = f"{first.candidate}: {first.reason}"
    if others:
        what += f" (and {counted(len(others), 'more fault')})"
    shown = others[:_SHOWN]
    if len(others) > _SHOWN:
        shown.append(Rejected("...", f"{counted(len(others) - _SHOWN, 'more fault')} not listed"))
    return CheckFailedError(what, where=where, fix=fix, rejected=shown)
