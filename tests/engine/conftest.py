"""The stand-in engine, started through the real machinery."""

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

import pytest

from toolkit.engine import environment, proc, process

STANDIN = Path(__file__).parents[1] / "standin" / "engine.py"


def until(condition: Callable[[], object], seconds: float = 10.0) -> object:
    """Wait until a condition holds; fails the test when it does not come true."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.01)
    return value


@pytest.fixture
def wait_for():
    return until


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Run:
    """One stand-in under a real warden."""

    def __init__(self, folder: Path, port: int, behaviour: dict, grace_s: float) -> None:
        self.folder, self.log, self.port = folder, folder / "serve.log", port
        (folder / "standin.json").write_text(json.dumps(behaviour))
        planned = {"STANDIN": str(folder / "standin.json"), "PATH": os.environ["PATH"]}
        env = environment.compose(planned, (), {}, folder, None).values
        argv = [
            sys.executable,
            "-S",
            str(STANDIN),
            "--served-model-name",
            "m",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
        ]
        self.inbox: SimpleQueue = SimpleQueue()
        self.launch = process.Launch(argv, env, folder, self.log, grace_s)
        self.engine = process.start(self.launch, self.inbox)

    def event(self, seconds: float = 10.0) -> object:
        return self.inbox.get(timeout=seconds)

    def marked(self) -> list[int]:
        """Living processes of this run, warden included."""
        return [p.pid for p in proc.all_processes() if not p.dead and proc.marker_of(p.pid) == str(self.folder)]

    def helpers(self, count: int) -> list[int]:
        """PIDs of the helper processes, once all have said that they run."""
        said = until(lambda: len(lines := self._helper_lines()) >= count and lines)
        return [int(line.split()[2]) for line in said if line.split()[2].isdecimal()]

    def _helper_lines(self) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if line.startswith("helper ")]

    def listening(self) -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0


@pytest.fixture
def start(tmp_path: Path, free_port: int):
    runs: list[Run] = []

    def begin(grace_s: float = 5.0, **behaviour: object) -> Run:
        folder = tmp_path / f"run{len(runs)}"
        folder.mkdir()
        runs.append(Run(folder, free_port, behaviour, grace_s))
        return runs[-1]

    yield begin
    for run in runs:
        for pid in run.marked():
            os.kill(pid, signal.SIGKILL)
