"""One engine from start to stop: a single event loop that alone moves the state."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from toolkit.engine import port, process
from toolkit.engine.answer import Answer
from toolkit.engine.events import (
    Answered,
    EngineExited,
    EngineGone,
    Event,
    Healthy,
    ProbeFailed,
    Signalled,
    WardenLost,
    WorkDone,
    WorkFailed,
)
from toolkit.engine.http import Client
from toolkit.engine.log import LogFollower
from toolkit.engine.phases import Phase, later_phase
from toolkit.engine.progress import Progress, measure
from toolkit.engine.readiness import Question, ask, check_model, wait_healthy
from toolkit.linux import proc
from toolkit.machine.probe import is_busy
from toolkit.runs.state import State, StateFile
from toolkit.runs.timings import Timings
from toolkit.serving.failures import died, foreign_server, no_progress, port_taken, survived, warden_lost
from toolkit.serving.reporter import Reporter

TICK_S = 0.1
"""How often the log is read while the engine starts; its end needs no polling, the warden tells it at once."""
FOLLOW_S = 0.25
"""How often it is read afterwards."""
LOOK_S = 5.0
"""How often the engine's processes are noted while it serves."""
MEASURE_S = 1.0
DEATH_FIRST_S = 0.5
"""A failed question waits this long for the news that the engine died, which is then the better explanation."""
PORT_FREE_S = 2.0
IDLE_GRACE_S = 3.0
"""The longest polite stop of an engine that has nothing to finish: one that has not answered yet, which may hear no
signal at all while it loads, or one whose work was called off."""


Work = Callable[[Client, threading.Event], None]
"""Something to do with a server that answers; the event is set when nobody waits for it any more."""


class StopRequestedError(Exception):
    """A signal asked for the end."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


@dataclass(frozen=True)
class Request:
    """What is started, and when it counts as started."""

    launch: process.Launch
    client: Client
    question: Question
    start_timeout_s: float
    """Seconds without progress after which a start is given up."""


class Supervisor:
    """The event loop. Signals, the engine's end and the answers to our questions all arrive in one inbox."""

    def __init__(
        self, request: Request, state: StateFile, timings: Timings, reporter: Reporter, inbox: SimpleQueue[Event]
    ) -> None:
        self._request = request
        self._state = state
        self._timings = timings
        self._reporter = reporter
        self._inbox = inbox
        self._log = LogFollower(request.launch.log)
        self._phase = Phase.importing
        self._engine: process.EngineProcess | None = None
        self._gone = False
        self._patience_s = IDLE_GRACE_S

    def start(self) -> None:
        """Start the engine's first process.

        Raises:
            EngineError: the port is taken by now, or the program cannot be executed.
        """
        address = self._request.client.address
        self._move(State.starting)
        if is_busy(address.host, address.port):
            raise port_taken(address)
        self._enter(Phase.importing)
        self._engine = process.start(self._request.launch, self._inbox)
        with self._recording():
            self._state.started(self._engine.warden_pid, self._engine.pid)

    def until_answered(self) -> Answer:
        """Wait until the engine is up and has answered.

        Raises:
            EngineError: it died, made no progress, or what answers is wrong.
            StopRequestedError: a signal came first.
        """
        progress = Progress(self._request.start_timeout_s, time.monotonic())
        with self._asking():
            while True:
                event = self._next(TICK_S)
                if isinstance(event, Answered):
                    self._timings.end()
                    self._patience_s = float("inf")
                    self._move(State.ready)
                    self._reporter.ready()
                    return event.answer
                if isinstance(event, ProbeFailed):
                    self._explain_by_death()
                    raise event.error
                if isinstance(event, Healthy):
                    self._enter(Phase.answering)
                self._check_progress(progress)

    def until_stopped(self) -> None:
        """Stay until a signal comes (StopRequestedError) or the engine dies (EngineError)."""
        looked = time.monotonic()
        while True:
            self._next(FOLLOW_S)
            self._reporter.log(self._log.new_lines())
            if self._engine is not None and time.monotonic() - looked >= LOOK_S:
                self._engine.processes()  # remembered, so that they are found even without their warden
                looked = time.monotonic()

    def until_done(self, work: Work) -> None:
        """Let `work` use the server, in a thread of its own; what it raises is raised here.

        Raises:
            EngineError: the engine died meanwhile.
            StopRequestedError: a signal came first; the work is told by its event.
        """
        cancelled = threading.Event()
        threading.Thread(target=self._do, args=(work, cancelled), daemon=True, name="work").start()
        try:
            while not isinstance(event := self._next(FOLLOW_S), WorkDone):
                if isinstance(event, WorkFailed):
                    self._explain_by_death()
                    raise event.error
        except BaseException:
            self._patience_s = IDLE_GRACE_S
            raise
        finally:
            cancelled.set()

    def _do(self, work: Work, cancelled: threading.Event) -> None:
        try:
            work(self._request.client, cancelled)
            self._inbox.put(WorkDone())
        except Exception as error:  # noqa: BLE001  (raised again by the event loop)
            self._inbox.put(WorkFailed(error))

    def stop(self, reason: str) -> None:
        """Stop the engine politely, and then for certain; a further signal kills at once.

        Raises:
            EngineError: processes survive even a kill.
        """
        survivors: tuple[proc.Process, ...] = ()
        if self._engine is not None:
            if not self._gone:
                self._timings.begin("stopping")
                self._reporter.phase("stopping")
                self._move(State.stopping)
                self._engine.terminate()
                self._await_gone(self._engine, self._patience_s)
            survivors = self._engine.make_sure()
            self._check_port()
        self._timings.end()
        self._move(State.stopped, reason)
        if survivors:
            raise survived(survivors)

    def _next(self, seconds: float) -> Event | None:
        """The next event, None after `seconds`; signals and the engine's end are raised."""
        try:
            event = self._inbox.get(timeout=seconds)
        except Empty:
            return None
        if isinstance(event, Signalled):
            raise StopRequestedError(event.signum)
        if isinstance(event, EngineExited):
            self._await_gone(self._engine)
            raise died(event.code, self._doing(), self._request.launch.log)
        if isinstance(event, (EngineGone, WardenLost)):
            self._gone = True
            raise warden_lost()
        return event

    def _await_gone(self, engine: process.EngineProcess | None, patience_s: float = float("inf")) -> None:
        """Wait until not one process is left; a signal meanwhile, or the end of our patience, kills them."""
        begun = time.monotonic()
        deadline = begun + self._request.launch.grace_s + process.LOST_S
        while not self._gone and time.monotonic() < deadline:
            try:
                event = self._inbox.get(timeout=TICK_S)
            except Empty:
                if engine is not None and time.monotonic() - begun >= patience_s:
                    engine.kill()
                    patience_s = float("inf")
                continue
            self._gone = isinstance(event, (EngineGone, WardenLost))
            if isinstance(event, Signalled) and engine is not None:
                self._reporter.notice("killing the engine now")
                engine.kill()
        self._gone = True  # whatever is left by now, make_sure() kills or names

    def _explain_by_death(self) -> None:
        """Raise the engine's end instead, if that is why a question failed."""
        deadline = time.monotonic() + DEATH_FIRST_S
        while (left := deadline - time.monotonic()) > 0:
            self._next(left)

    def _check_progress(self, progress: Progress) -> None:
        now = time.monotonic()
        lines = self._log.new_lines()
        self._reporter.log(lines)
        for line in lines:
            if (phase := later_phase(self._phase, line)) is not None:
                self._enter(phase)
        progress.logged(lines, now)
        if self._engine is not None and now - progress.measured >= min(MEASURE_S, progress.timeout_s / 4):
            progress.used(measure(self._engine.processes()), now)
        if progress.expired(now):
            raise no_progress(progress.timeout_s, self._doing(), self._request.launch.log)

    def _move(self, state: State, reason: str = "") -> None:
        with self._recording():
            self._state.move(state, reason)

    @contextmanager
    def _recording(self) -> Iterator[None]:
        """A full disk or a removed folder must keep no engine from being stopped."""
        try:
            yield
        except OSError as error:
            self._reporter.notice(f"the run's state cannot be written: {error}")

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        self._timings.begin(phase.value)
        self._reporter.phase(phase.value)

    def _doing(self) -> str:
        return "serving" if self._state.current.state is State.ready else self._phase.value

    def _check_port(self) -> None:
        address, deadline = self._request.client.address, time.monotonic() + PORT_FREE_S
        while is_busy(address.host, address.port):
            if time.monotonic() >= deadline:
                holder = port.describe_holder(address.port)
                self._reporter.notice(f"port {address.port} is not free again: {holder} listens on it")
                return
            time.sleep(0.02)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Ask the server in a thread of its own, as a question may block for as long as kernels compile."""
        cancelled = threading.Event()
        threading.Thread(target=self._ask, args=(cancelled,), daemon=True, name="readiness").start()
        try:
            yield
        finally:
            cancelled.set()

    def _ask(self, cancelled: threading.Event) -> None:
        client = self._request.client
        try:
            if not wait_healthy(client, cancelled):
                return
            self._check_owner()  # before our key is sent to whoever listens there
            self._inbox.put(Healthy())
            check_model(client)
            self._inbox.put(Answered(ask(client, self._request.question)))
        except Exception as error:  # noqa: BLE001  (raised again by the event loop)
            self._inbox.put(ProbeFailed(error))

    def _check_owner(self) -> None:
        address = self._request.client.address
        ours = [found.pid for found in self._engine.processes()] if self._engine is not None else []
        if not port.holders(address.port, ours):
            raise foreign_server(address)
