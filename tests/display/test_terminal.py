"""The start-up display: live on a terminal, plain lines elsewhere."""

import contextlib
import io
import itertools
import os
import re

import pytest

from toolkit.display.terminal import (
    LiveProgress,
    LiveReporter,
    PlainProgress,
    PlainReporter,
    progress_for,
    reporter_for,
)


def tell(reporter) -> None:
    reporter.notice("run [x]")
    reporter.phase("loading weights")
    reporter.log(["[bold]shard 1[/bold] of 2"])
    reporter.phase("warming up")
    reporter.ready()
    reporter.log(["GET /health [200]"])
    reporter.phase("stopping")
    reporter.close()


def test_plain_lines_without_a_terminal():
    stream = io.StringIO()
    reporter = reporter_for(stream)
    assert type(reporter) is PlainReporter
    tell(reporter)
    lines = [re.sub(r"\d+\.\d", "0.0", line) for line in stream.getvalue().splitlines()]
    assert lines == [
        "note: run [x]",
        "[   0.0 s] loading weights",
        "[   0.0 s] warming up",
        "GET /health [200]",
        "[   0.0 s] stopping",
    ]


def test_the_end_of_a_log_is_indented():
    stream = io.StringIO()
    PlainReporter(stream).log_end(["one", "two"])
    PlainReporter(stream).log_end([])
    assert stream.getvalue() == "the engine's last lines:\n  | one\n  | two\n"


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    master, slave = os.openpty()
    stream = os.fdopen(slave, "w")

    def shown() -> str:
        stream.close()
        os.set_blocking(master, False)
        text = b""
        try:
            while chunk := os.read(master, 1 << 16):
                text += chunk
        except OSError:  # the other end is closed, and all is read
            pass
        return text.decode()

    yield stream, shown
    os.close(master)


def test_a_live_display_on_a_terminal(terminal):
    stream, shown = terminal
    reporter = reporter_for(stream)
    assert type(reporter) is LiveReporter
    tell(reporter)
    text = shown()
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert "\x1b[?25l" in text  # the cursor is hidden while the line moves
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")  # and shown again
    for line in ("note: run [x]", "✓ loading weights", "✓ warming up", "GET /health [200]", "✓ stopping"):
        assert line in plain
    assert "[bold]shard 1[/bold] of 2" in plain


@pytest.mark.parametrize("name", ["xterm", "dumb"])
def test_a_terminal_that_is_closed_does_no_harm(monkeypatch, name):
    monkeypatch.setenv("TERM", name)
    master, slave = os.openpty()
    stream = os.fdopen(slave, "w")
    reporter = reporter_for(stream)
    reporter.phase("loading weights")
    os.close(master)  # every write now fails
    tell(reporter)
    reporter.log_end(["last words"])
    with contextlib.suppress(OSError):
        stream.close()


def test_a_dumb_terminal_gets_plain_lines(terminal, monkeypatch):
    stream, _ = terminal
    monkeypatch.setenv("TERM", "dumb")
    assert type(reporter_for(stream)) is PlainReporter
    assert type(progress_for(stream)) is PlainProgress


@pytest.mark.parametrize(
    ("seconds_a_step", "told"), [(1.0, range(10, 101, 10)), (0.01, ()), (0.15, (10, 30, 50, 70, 80))]
)
def test_bringing_a_checkpoint_here_is_shown_in_tenths_a_second_apart(monkeypatch, seconds_a_step, told):
    clock = itertools.count(0.0, seconds_a_step)
    monkeypatch.setattr("toolkit.display.terminal.time.monotonic", lambda: next(clock))
    stream = io.StringIO()
    progress = progress_for(stream)
    progress.start("converting", 200_000_000)
    for _ in range(40):
        progress.advance(5_000_000)
    progress.done()
    lines = stream.getvalue().splitlines()
    assert lines[0] == "converting (200 MB)"
    assert lines[1:] == [f"converting: {percent} %" for percent in told]


def test_an_unknown_total_does_no_harm():
    stream = io.StringIO()
    progress = PlainProgress(stream)
    progress.start("reading", None)
    progress.advance(5)
    progress.done()
    assert stream.getvalue() == "reading\n"


def test_a_bar_on_a_terminal_even_for_nested_steps(terminal):
    stream, shown = terminal
    progress = progress_for(stream)
    assert type(progress) is LiveProgress
    progress.start("fetching [all]", 10)
    progress.start("one file", None)
    progress.advance(3)
    progress.done()
    progress.advance(10)
    progress.done()
    text = shown()
    assert "fetching [all]" in text
    assert "one file" in text
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert "0:00:00 -:--:--" in plain  # the time so far is there before anything is known of what remains
