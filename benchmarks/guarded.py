"""A program whose processes all end with the benchmark that started it, also where the benchmark is killed."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue

from toolkit.engine.events import EngineExited, Event
from toolkit.engine.process import EngineProcess, Launch, start
from toolkit.linux import control
from toolkit.linux.proc import MARKER

GRACE_S = 60.0


@dataclass(frozen=True)
class Guarded:
    """A program behind the warden that `serve` uses."""

    process: EngineProcess
    log: Path
    """Its standard output and error."""
    inbox: SimpleQueue[Event]

    def code(self) -> int | None:
        """How its first process ended (negative: the signal), told once; None while it runs."""
        try:
            return _code(self.inbox.get_nowait())
        except Empty:
            return None

    def wait(self) -> int:
        """Wait for the end of its first process; how that ended (negative: the signal)."""
        return _code(self.inbox.get())


@contextmanager
def guarded(argv: Sequence[str], env: Mapping[str, str]) -> Iterator[Guarded]:
    """Start a program in a folder of its own; nothing of it is left when the context, or this process, ends."""
    with tempfile.TemporaryDirectory() as name:
        folder, inbox = Path(name), SimpleQueue[Event]()
        log = folder / "log"
        process = start(Launch(argv, {**env, MARKER: name}, folder, log, GRACE_S), inbox)
        try:
            yield Guarded(process, log, inbox)
        finally:
            process.kill()
            process.make_sure()


def stop_with_parent() -> None:
    """For a child that cleans up by itself (subprocess's `preexec_fn`): SIGTERM when the benchmark is gone."""
    control.die_with_parent(signal.SIGTERM)


def _code(event: Event) -> int:
    if isinstance(event, EngineExited):
        return event.code
    raise RuntimeError(f"the warden said {event}")
