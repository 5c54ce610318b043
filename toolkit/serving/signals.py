"""Signals as events: a handler that raises could strike anywhere, so it only leaves a note for the event loop."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType

from toolkit.engine.events import Event, Signalled

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@contextmanager
def signals_into(inbox: SimpleQueue[Event]) -> Iterator[None]:
    """Put the STOPPING signals into the inbox; one that was ignored (nohup, a background job) stays ignored."""

    def note(signum: int, _: FrameType | None) -> None:
        inbox.put(Signalled(signum))  # SimpleQueue.put may be called from a handler

    taken = [signum for signum in STOPPING if signal.getsignal(signum) is not signal.SIG_IGN]
    before = [(signum, signal.signal(signum, note)) for signum in taken]
    try:
        yield
    finally:
        for signum, handler in before:
            signal.signal(signum, handler)
