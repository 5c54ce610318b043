"""Reading facts so that none can keep the others from being read: each by itself, and all by one deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

DEADLINE_S = 10.0
"""A lost GPU or a network folder that hangs must not hang the answer."""


class CannotReadError(Exception):
    """A fact cannot be read; the message says why, as a part of a sentence."""


@dataclass(frozen=True)
class Reading:
    """What one probe came back with."""

    value: Any = None
    reason: str | None = None
    """Why there is no value; None where there is one."""


def read_all(probes: Mapping[str, Callable[[], Any]], deadline_s: float = DEADLINE_S) -> dict[str, Reading]:
    """Run every probe in a thread of its own and return what is there at the deadline; nothing that one does raises."""
    readings: dict[str, Reading] = {}
    threads = [
        threading.Thread(target=_read, args=(name, function, readings), daemon=True)
        for name, function in probes.items()
    ]
    end = time.monotonic() + deadline_s
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    done = dict(readings)  # a late thread changes nothing any more
    late = Reading(reason=f"no answer within {deadline_s:g} s")
    return {name: done.get(name, late) for name in probes}


def _read(name: str, function: Callable[[], Any], readings: dict[str, Reading]) -> None:
    try:
        readings[name] = Reading(function())
    except CannotReadError as error:
        readings[name] = Reading(reason=str(error))
    except Exception as error:  # noqa: BLE001 - whatever a strange machine does, the other facts are still read
        readings[name] = Reading(reason=f"{type(error).__name__}: {error}")
