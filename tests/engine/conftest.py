"""The stand-in engine, started through the real machinery."""

import os
import sys
from pathlib import Path
from queue import SimpleQueue

import pytest

from toolkit.engine import environment, process

sys.path.insert(0, str(Path(__file__).parents[1] / "standin"))
import harness


class Started:
    """One stand-in under a real warden."""

    def __init__(self, folder: Path, port: int, behaviour: dict, grace_s: float) -> None:
        self.folder, self.log, self.port = folder, folder / "serve.log", port
        planned = {"STANDIN": str(harness.behave(folder, **behaviour)), "PATH": os.environ["PATH"]}
        env = environment.compose(planned, (), {}, folder, None).values
        self.inbox: SimpleQueue = SimpleQueue()
        self.launch = process.Launch(harness.standin_argv(port), env, folder, self.log, grace_s)
        self.engine = process.start(self.launch, self.inbox)

    def event(self, seconds: float = 20.0) -> object:
        return self.inbox.get(timeout=seconds)

    def listening(self) -> bool:
        return harness.listens(self.port)


@pytest.fixture
def start(tmp_path: Path):
    runs: list[Started] = []

    def begin(grace_s: float = 5.0, **behaviour: object) -> Started:
        folder = tmp_path / f"run{len(runs)}"
        folder.mkdir()
        runs.append(Started(folder, harness.unused_port(), behaviour, grace_s))
        return runs[-1]

    yield begin
    for run in runs:
        harness.kill_marked(run.folder)
