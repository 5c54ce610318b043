"""What the tests of the engine, of serving and of the verbs share."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from toolkit.linux import proc

STANDIN = Path(__file__).with_name("engine.py")
INTERPRETER = Path(__file__).with_name("python")


def until(condition: Callable[[], object], seconds: float = 20.0) -> object:
    """Wait until a condition holds; fails the test when it does not come true."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.01)
    return value


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def gone(pids: list[int]) -> bool:
    return all((found := proc.read(pid)) is None or found.dead for pid in pids)


def marked(folder: Path) -> list[int]:
    """Living processes that carry the marker of a run's folder."""
    return [p.pid for p in proc.all_processes() if not p.dead and proc.marker_of(p.pid) == str(folder)]


def kill_marked(folder: Path) -> None:
    for pid in marked(folder):
        with suppress(ProcessLookupError):  # it may end by itself meanwhile
            os.kill(pid, signal.SIGKILL)


def end(process: subprocess.Popen, runs: Path) -> None:
    """Kill a verb that still runs, and what engines of its runs are left."""
    if process.poll() is None:
        process.kill()
    process.communicate()
    for run in runs.iterdir() if runs.exists() else ():
        kill_marked(run)


def helper_pids(log: Path, count: int) -> list[int]:
    """PIDs of the stand-in's helper processes, once that many have said that they run."""

    def said() -> list[str]:
        return [line for line in log.read_text().splitlines() if line.startswith("helper ")] if log.exists() else []

    lines = until(lambda: len(found := said()) >= count and found)
    return [int(line.split()[2]) for line in lines if line.split()[2].isdecimal()]


def behave(folder: Path, **behaviour: object) -> Path:
    """The file that tells the stand-in how to behave."""
    path = folder / "standin.json"
    path.write_text(json.dumps(behaviour))
    return path


def standin_argv(port: int, model: str = "m") -> list[str]:
    served = ["--served-model-name", model, "--host", "127.0.0.1", "--port", str(port)]
    return [sys.executable, "-S", str(STANDIN), *served]
