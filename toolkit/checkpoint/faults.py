"""Several faults of one artifact, told in one error."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.errors import CheckFailedError, Rejected

_SHOWN = 20


def check_failed(faults: Sequence[Rejected], *, where: str, fix: str) -> CheckFailedError:
    """The error for these faults (at least one): the first is its first line, the others are listed below it."""
    first, *others = faults
    what = f"{first.candidate}: {first.reason}"
    if others:
        what += f" (and {len(others)} more {'fault' if len(others) == 1 else 'faults'})"
    shown = others[:_SHOWN]
    if len(others) > _SHOWN:
        shown.append(Rejected("...", f"{len(others) - _SHOWN} more faults are not listed"))
    return CheckFailedError(what, where=where, fix=fix, rejected=shown)
