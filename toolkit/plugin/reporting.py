"""When a worker writes its report: once it is warm, after real use, and when it ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

logger = logging.getLogger("vllm.volta")


IDLE_S = 30.0
"""Between two reports of a worker that has come to rest; one takes a few tenths of a second."""


class Reporting:
    """Writes again after the first finished request, whenever their number has doubled, at rest, and last of all.

    So the report is of real use as soon as there is any, and hardly costs a busy server anything. At its end a
    worker is heard only where vLLM lets it end: under vLLM's own default, `--shutdown-timeout 0`, it is killed.
    """

    def __init__(self, write: Callable[[int, bool], None], clock: Callable[[], float] = time.monotonic) -> None:
        """`write` takes the number of finished requests, and whether the worker ends; what it raises now is raised."""
        self._write, self._clock = write, clock
        self._finished, self._due = 0, 1
        write(0, False)
        self._written = clock()

    def finished(self, requests: int, *, idle: bool) -> None:
        """So many more requests are over. idle: no other is in work."""
        self._finished += requests
        if self._finished >= self._due or (idle and self._clock() - self._written >= IDLE_S):
            self._due = 2 * self._finished
            self._again(ended=False)

    def end(self) -> None:
        """The worker ends in order."""
        self._again(ended=True)

    def _again(self, *, ended: bool) -> None:
        try:
            self._write(self._finished, ended)
            self._written = self._clock()
        except Exception as error:  # noqa: BLE001 - a server that answers is worth more than a report of it
            logger.warning("The worker's report was not written again: %s: %s", type(error).__name__, error)
