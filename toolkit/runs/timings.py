"""How long each phase of a run took."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from toolkit.linux import proc

BEFORE = "interpreter and imports"


def process_age() -> float:
    """Seconds since this process was started, its interpreter's own start included (to 0.01 s)."""
    started = proc.identify(os.getpid()).started
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")


@dataclass
class Timings:
    """Seconds by phase, on a monotonic clock; one phase follows the other."""

    seconds: dict[str, float] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic
    _phase: str = ""
    _began: float = 0.0

    def begin(self, phase: str) -> None:
        """End the current phase and begin the next; a phase that is entered again adds up."""
        now = self.clock()
        if self._phase:
            self.seconds[self._phase] = self.seconds.get(self._phase, 0.0) + now - self._began
        self._phase, self._began = phase, now

    def end(self) -> None:
        """End the current phase; none follows for now."""
        self.begin("")

    @property
    def total(self) -> float:
        """Seconds over all phases that have ended."""
        return sum(self.seconds.values())
