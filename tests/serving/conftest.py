"""A whole run in this process: records, warden, stand-in engine, event loop."""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from toolkit.config.schema.engine import EngineName
from toolkit.config.schema.verbs import Until
from toolkit.engine import environment
from toolkit.engine.answer import MODEL_CHECKS
from toolkit.engine.http import Client
from toolkit.engine.process import Launch
from toolkit.engine.readiness import Question
from toolkit.planning.expected import PLATFORMS, ExpectedWorkers, ImportFolders
from toolkit.planning.plan import Capacity, ServerAddress
from toolkit.runs.folder import create
from toolkit.runs.receipt import Outcome, Receipt
from toolkit.runs.timings import Timings
from toolkit.serving.carry_out import Run, packages_of
from toolkit.serving.session import open_session
from toolkit.serving.signals import STOPPING
from toolkit.serving.supervise import Request

sys.path.insert(0, str(Path(__file__).parents[1] / "standin"))
import harness


class Recorder:
    """A reporter that remembers."""

    def __init__(self) -> None:
        self.notices: list[str] = []
        self.phases: list[str] = []
        self.logged: list[str] = []
        self.ended: list[str] = []
        self.is_ready = threading.Event()
        self.closed = 0

    def notice(self, text: str) -> None:
        self.notices.append(text)

    def phase(self, name: str) -> None:
        self.phases.append(name)

    def ready(self) -> None:
        self.is_ready.set()

    def log(self, lines) -> None:
        self.logged += lines

    def log_end(self, lines) -> None:
        self.ended += lines

    def close(self) -> None:
        self.closed += 1


class Case:
    """One run and all that can be seen of it."""

    def __init__(self, root: Path, behaviour: dict, until: Until, start_s: float, grace_s: float, *, capacity) -> None:
        self.folder = create(root, "standin")
        self.port = port = harness.unused_port()
        self.reporter = Recorder()
        self.answers: list = []
        planned = {"STANDIN": str(harness.behave(root, **behaviour)), "PATH": os.environ["PATH"]}
        env = environment.compose(planned, (), {}, self.folder.path, None)
        launch = Launch(harness.standin_argv(port), env.values, self.folder.path, self.folder.log, grace_s)
        address = ServerAddress("127.0.0.1", port, "m")
        receipt = Receipt(
            self.folder.name, "0", "now", "standin", {}, {}, launch.argv, env.values, (), {"cpu_count": 2}, {}
        )
        question = Question("What is the capital of France?", MODEL_CHECKS)
        self.run = Run(
            Request(launch, Client(address), question, start_s),
            open_session(self.folder, receipt, frozenset(), None),
            until,
            Timings(),
            self.reporter,
            self.answers.append,
            packages_of(sys.executable),
            ExpectedWorkers(
                "cpu", PLATFORMS[EngineName.cpu], ImportFolders((str(Path(os.__file__).parent),), (), (), None)
            ),
            capacity,
            2048,
        )

    def carry_out(self) -> Outcome:
        return self.run.carry_out()

    @property
    def state(self) -> dict:
        return json.loads(self.folder.state.read_text())

    @property
    def receipt(self) -> dict:
        return json.loads(self.folder.receipt.read_text())

    def when(self, condition: Callable[[], object], then: Callable[[], object]) -> None:
        """Do something as soon as a condition holds, while the run goes on in the main thread."""

        def watch() -> None:
            harness.until(condition)
            then()

        threading.Thread(target=watch, daemon=True).start()

    def signal_when(self, condition: Callable[[], object], *signums: int) -> None:
        def send() -> None:
            for signum in signums:
                os.kill(os.getpid(), signum)

        self.when(condition, send)

    def assert_nothing_left(self) -> None:
        assert harness.marked(self.folder.path) == []
        assert not harness.listens(self.port)
        assert self.state["state"] == "stopped"
        assert self.reporter.closed == 1


@pytest.fixture
def case(tmp_path: Path):
    before = {signum: signal.getsignal(signum) for signum in STOPPING}
    cases: list[Case] = []

    def make(
        until: Until = Until.answered,
        start_s: float = 10.0,
        grace_s: float = 5.0,
        capacity: Capacity | None = None,
        **behaviour: object,
    ) -> Case:
        root = tmp_path / str(len(cases))
        root.mkdir()
        cases.append(Case(root, behaviour, until, start_s, grace_s, capacity=capacity))
        return cases[-1]

    yield make
    for made in cases:
        harness.kill_marked(made.folder.path)
    assert {signum: signal.getsignal(signum) for signum in before} == before
