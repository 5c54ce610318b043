"""A program that answers, and programs that hang: of none is a process left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from harness import gone, until

from toolkit.linux.ask import answer

HANGS = """
import os, sys, time
from pathlib import Path
for _ in range(2):  # itself, and a child that holds its streams
    if os.fork() == 0:
        break
Path(sys.argv[1], f"pid-{os.getpid()}").touch()
time.sleep(600)
"""


def started(folder: Path) -> list[int]:
    return [int(path.name.partition("-")[2]) for path in folder.glob("pid-*")]


def test_an_answer() -> None:
    done = answer(
        [sys.executable, "-c", "import sys; print(sys.stdin.read() + 'yes'); print('no', file=sys.stderr)"], 30
    )
    assert (done.stdout, done.stderr) == (b"yes\n", b"no\n")


def test_an_end_with_a_code_and_no_start() -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        answer(["sh", "-c", "echo broken >&2; exit 3"], 30)
    assert (caught.value.returncode, caught.value.stderr) == (3, b"broken\n")
    with pytest.raises(FileNotFoundError):
        answer(["/no/such/program"], 30)


def test_one_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        answer([sys.executable, "-S", "-c", HANGS, str(tmp_path)], 1.0)
    assert len(started(tmp_path)) == 3
    until(lambda: gone(started(tmp_path)))


def test_an_interrupted_question_leaves_nothing(tmp_path: Path) -> None:
    def interrupt() -> None:
        until(lambda: len(started(tmp_path)) == 3)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        answer([sys.executable, "-S", "-c", HANGS, str(tmp_path)], 60)
    assert time.monotonic() - begun < 30
    until(lambda: gone(started(tmp_path)))
