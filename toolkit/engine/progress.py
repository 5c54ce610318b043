"""Telling a slow start from one that hangs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from toolkit.linux import proc

BUSY = 0.05
"""Cores kept busy that count as progress, little enough for a crowded machine; an engine that waits takes 0.002."""
READING = 1 << 20
"""Bytes a second that count as progress."""
WORK_LIMIT = 10
"""Busy without a new log line counts for at most this many timeouts: an endless loop is busy too."""
CLOCK = re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d")


@dataclass(frozen=True)
class Usage:
    """What the engine's processes have consumed so far."""

    cpu_s: float
    read_bytes: int


def measure(processes: Iterable[proc.Process]) -> Usage:
    """Consumption of the engine's processes, summed."""
    found = list(processes)
    return Usage(sum(process.cpu_s for process in found), sum(proc.bytes_read(process.pid) for process in found))


@dataclass
class Progress:
    """A deadline that moves as long as something happens; all times in seconds of one monotonic clock."""

    timeout_s: float
    started: float
    last: float = field(init=False)
    """When anything last happened."""
    spoken: float = field(init=False)
    """When the log last said something new."""
    _seen: set[int] = field(default_factory=set)
    _usage: Usage = Usage(0.0, 0)
    measured: float = field(init=False)
    """When consumption was last measured."""

    def __post_init__(self) -> None:
        self.last = self.spoken = self.measured = self.started

    def logged(self, lines: Iterable[str], now: float) -> None:
        """The log grew. A line that repeats an earlier one but for its time of day is no progress."""
        new = {hash(CLOCK.sub("", line)) for line in lines} - self._seen
        if new:
            self._seen |= new
            self.last = self.spoken = now

    def used(self, usage: Usage, now: float) -> None:
        """The processes' consumption was measured; rates since the last measurement count."""
        elapsed = now - self.measured
        if elapsed <= 0:
            return
        busy = usage.cpu_s - self._usage.cpu_s >= BUSY * elapsed
        reading = usage.read_bytes - self._usage.read_bytes >= READING * elapsed
        if (busy or reading) and now - self.spoken < WORK_LIMIT * self.timeout_s:
            self.last = now
        self._usage, self.measured = usage, now

    def stalled_for(self, now: float) -> float:
        """Seconds without progress."""
        return now - self.last

    def expired(self, now: float) -> bool:
        """Whether to give up."""
        return self.stalled_for(now) >= self.timeout_s
