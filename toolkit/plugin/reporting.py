"""When a worker writes its report: once it is warm, after real use, and when it ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

logger = logging.getLogger("vllm.volta")


IDLE_S = 30.0
"""Between two reports of a worker that has come to rest; one takes a few tenths of a second."""


class Reporting:
    """Writes again after the first finished request, then at rest where their number has doubled, and last of all.

    So the report is of real use as soon as there is any, and no other request waits for a later one. At its end a
    worker is heard only where vLLM lets it end: under vLLM's own default, `--shutdown-timeout 0`, it is killed.
    """

    def __init__(self, write: Callable[[int, bool], None], clock: Callable[[], float] = time.monotonic) -> None:
        """`write` takes the number of finished requests, and whether the worker ends; what it raises is logged."""
        self._write, self._clock = write, clock
        self._finished, self._due, self._written = 0, 1, clock()
        self._report(ended=False)

    def finished(self, requests: int, *, idle: bool) -> None:
        """So many more requests are over. idle: no other is in work."""
        self._finished += requests
        due = self._finished >= self._due
        first = due and self._due == 1
        if first or (idle and (due or self._clock() - self._written >= IDLE_S)):
            self._due = 2 * self._finished
            self._report(ended=False)

    def end(self) -> None:
        """The worker ends in order."""
        self._report(ended=True)

    def _report(self, *, ended: bool) -> None:
        try:
            self._write(self._finished, ended)
            self._written = self._clock()
        except Exception as error:  # a server that answers is worth more than a report of it
            logger.error("The worker's report cannot be made: %s: %s", type(error).__name__, error, exc_info=True)
