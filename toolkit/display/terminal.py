"""What the user sees on stderr while something long goes on: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from toolkit.checkpoint.progress import Progress
from toolkit.display.plain import visible
from toolkit.display.words import joined, words
from toolkit.serving.reporter import Reporter

if TYPE_CHECKING:
    from rich.progress import TaskID


def reporter_for(stream: TextIO) -> Reporter:
    """How a server's start and stop are shown on that stream."""
    return LiveReporter(stream) if _can_redraw(stream) else PlainReporter(stream)


def progress_for(stream: TextIO) -> Progress:
    """How the steps of bringing a checkpoint here, or of a view, are shown on that stream."""
    return LiveProgress(stream) if _can_redraw(stream) else PlainProgress(stream)


def _can_redraw(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"


TOLD_EVERY_S = 1.0
"""A log has no use for ten lines within one second."""


class PlainProgress:
    """A line for each step, and one for each tenth of it, but not more than one in TOLD_EVERY_S."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._what = ""
        self._total: int | None = None
        self._done = self._told = 0
        self._told_at = 0.0

    def start(self, what: str, total: int | None) -> None:
        """Print the step."""
        self._what, self._total, self._done, self._told, self._told_at = what, total, 0, 0, time.monotonic()
        print(f"{what}{f' ({_size(total)})' if total else ''}", file=self._stream, flush=True)

    def advance(self, amount: int) -> None:
        """Print each tenth."""
        self._done += amount
        tenth = 10 * self._done // self._total if self._total else 0
        now = time.monotonic()
        if tenth > self._told and now - self._told_at >= TOLD_EVERY_S:
            self._told, self._told_at = tenth, now
            print(f"{self._what}: {10 * tenth} %", file=self._stream, flush=True)

    def done(self) -> None:
        """Say nothing: the next step or the start follows."""


def _size(count: int) -> str:
    return f"{count / 1e6:.0f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB" if count >= 1e3 else f"{count} bytes"


class LiveProgress:
    """A bar for each step, and its time so far, which goes on where one long prompt or file holds the bar still."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        what, times = TextColumn("{task.description}", markup=False), (TimeElapsedColumn(), TimeRemainingColumn())
        self._bars = Bars(what, BarColumn(), DownloadColumn(), *times, console=Console(file=stream))
        self._steps: list[TaskID] = []

    def start(self, what: str, total: int | None) -> None:
        """Show a bar; it pulses where the total is unknown."""
        self._steps.append(self._bars.add_task(what, total=total))
        self._bars.start()

    def advance(self, amount: int) -> None:
        """Move the newest bar."""
        self._bars.advance(self._steps[-1], amount)

    def done(self) -> None:
        """Fill the newest bar and leave it."""
        step = self._steps.pop()
        self._bars.update(step, total=self._bars.tasks[step].completed)
        if not self._steps:
            self._bars.stop()


class PlainReporter:
    """One line for each phase, with the seconds since the start."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._began = time.monotonic()
        self._following = False

    def notice(self, text: str) -> None:
        """Print it."""
        self._line(f"note: {text}")

    def phase(self, name: str) -> None:
        """Print it with the time."""
        self._line(f"[{time.monotonic() - self._began:6.1f} s] {name}")

    def ready(self) -> None:
        """From here on, the engine's log is shown."""
        self._following = True

    def log(self, lines: Sequence[str]) -> None:
        """Print the lines, once the server is ready."""
        if self._following:
            for line in lines:
                self._line(line)

    def log_end(self, lines: Sequence[str]) -> None:
        """Print the lines, indented."""
        if lines:
            self._line("the engine's last lines:")
            for line in lines:
                self._line(f"  | {line}")

    def close(self) -> None:
        """Nothing to tidy."""

    def _line(self, text: str) -> None:
        with suppress(OSError):  # a terminal that was closed must keep no engine from being stopped
            self._write(visible(text))

    def _write(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


class LiveReporter(PlainReporter):
    """Finished phases with their seconds, and a line that moves: the current phase and what the engine says."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console

        super().__init__(stream)
        self._console = Console(file=stream, highlight=False)
        self._status = self._console.status("")
        self._phase = ""
        self._phase_began = self._began

    def phase(self, name: str) -> None:
        """Tick off the phase before, and show this one."""
        self._tick_off()
        self._phase, self._phase_began = name, time.monotonic()
        with suppress(OSError):
            self._show("")
            self._status.start()

    def ready(self) -> None:
        """Tick off the last phase and leave the terminal to the log."""
        self.close()
        super().ready()

    def log(self, lines: Sequence[str]) -> None:
        """Show the newest line beside the phase, or all of them once the server is ready."""
        if self._following:
            super().log(lines)
        elif lines:
            with suppress(OSError):
                self._show(lines[-1])

    def log_end(self, lines: Sequence[str]) -> None:
        """Leave the moving line and print the lines."""
        with suppress(OSError):
            self._status.stop()
        super().log_end(lines)

    def close(self) -> None:
        """Give the terminal back."""
        self._tick_off()
        with suppress(OSError):
            self._status.stop()

    def _tick_off(self) -> None:
        if self._phase:
            self._line(f"✓ {self._phase}  {time.monotonic() - self._phase_began:.1f} s")
            self._phase = ""

    def _show(self, line: str) -> None:
        room = max(0, self._console.width - len(self._phase) - 8)
        self._status.update(joined(words(self._phase), words("  " + line[:room], "dim")))

    def _write(self, text: str) -> None:
        self._console.print(words(text), soft_wrap=True)
