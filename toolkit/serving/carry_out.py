"""Carrying out one plan: records, engine, answer, and an orderly end whatever happens."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any

from toolkit.config.schema.verbs import Until
from toolkit.engine.answer import Answer
from toolkit.engine.events import Event
from toolkit.engine.log import all_lines, tail
from toolkit.errors import CheckFailedError, EngineError, ToolkitError
from toolkit.linux import proc
from toolkit.planning.capacity.engine_log import compare, reported_in
from toolkit.planning.expected import ExpectedWorkers
from toolkit.planning.plan import Capacity, Finding, Severity
from toolkit.planning.worker_report import WorkerReport
from toolkit.runs.packages import Package, import_path, installed
from toolkit.runs.receipt import Outcome
from toolkit.runs.state import StateFile
from toolkit.runs.timings import Timings
from toolkit.serving.orphans import clear, dead_runs
from toolkit.serving.reporter import Reporter
from toolkit.serving.session import Session, answer_record, capacity_record, finding_records, unwritable
from toolkit.serving.signals import signals_into
from toolkit.serving.supervise import Request, StopRequestedError, Supervisor, Work
from toolkit.serving.worker_differences import differences
from toolkit.serving.worker_environment import environment_findings, refuse_workers
from toolkit.serving.worker_imports import added_findings
from toolkit.serving.worker_reports import (
    NOTHING_EXPECTED,
    ExpectedScales,
    await_use,
    check_scales,
    early_findings,
    read_reports,
)

LOG_LINES = 40


@dataclass
class Run:
    """One run of a request, from its records to its end."""

    request: Request
    session: Session
    until: Until
    timings: Timings
    reporter: Reporter
    on_answer: Callable[[Answer], None]
    """Called once, when the server is ready."""
    packages: Later
    workers: ExpectedWorkers
    """What the workers are held against."""
    planned: Capacity | None
    """What the KV cache should hold; None where the plan does not know."""
    max_model_len: int
    scales: ExpectedScales = NOTHING_EXPECTED
    """What the served view says; the workers' reports are compared with it before the answer counts."""
    work: Work | None = None
    """What is done with the server once it answers."""

    def carry_out(self) -> Outcome:
        """Start, wait for the answer, stay as long as `until` says, and stop.

        Raises:
            EngineError: the engine did not start, or died; the records are complete by then.
            CheckFailedError: it does not use the view's KV scales, or is not the engine that was planned.
        """
        inbox: SimpleQueue[Event] = SimpleQueue()
        with signals_into(inbox):
            supervisor = self._prepare(inbox)
            outcome = Outcome("failed", 1, "a bug of the toolkit")
            try:
                outcome = self._live(supervisor)
            except ToolkitError as error:
                outcome = Outcome("failed", error.exit_code, error.what)
                if isinstance(error, EngineError):
                    self.reporter.log_end(tail(self.session.folder.log, LOG_LINES))
                raise
            finally:
                self._end(supervisor, outcome)
        return outcome

    def _prepare(self, inbox: SimpleQueue[Event]) -> Supervisor:
        folder, address = self.session.folder, self.request.client.address
        try:
            state = StateFile(folder.state, folder.name, address.model, address.url, self.request.launch.grace_s)
            self.session.record()
        except OSError as error:
            raise unwritable(folder, error) from error
        return Supervisor(self.request, state, self.timings, self.reporter, inbox)

    def _live(self, supervisor: Supervisor) -> Outcome:
        try:
            self.timings.begin("looking for leftovers")
            _clear_leftovers(self.reporter)
            supervisor.start()
            self.packages.begin()
            answer = supervisor.until_answered()
            seconds = dict(self.timings.seconds)
            self._record(answer=answer_record(answer), timings=seconds, packages=self.packages.result())
            supervisor.until_done(partial(await_use, self.session.folder.workers))
            self._check_workers()
            self._compare_capacity()
            self.on_answer(answer)
            if self.work is not None:
                self.timings.begin("working")
                supervisor.until_done(self.work)
            if self.until is Until.stopped:
                self.timings.begin("serving")
                supervisor.until_stopped()
        except StopRequestedError as stop:
            return Outcome("interrupted", 128 + stop.signum, f"stopped by {signal.Signals(stop.signum).name}")
        return Outcome("stopped", 0, f"until={self.until.value}")

    def _check_workers(self) -> None:
        folder = self.session.folder.workers
        reports = read_reports(folder)
        self._record(workers=[report.to_data() for report in reports])
        found = self._compare(reports)
        self._found(found)
        refuse_workers(found, folder)
        check_scales(reports, self.scales, folder)

    def _compare(self, reports: Sequence[WorkerReport]) -> tuple[Finding, ...]:
        return (
            *environment_findings(reports, self.workers, self.request.launch.env, self.session.folder.workers),
            *differences(reports, self.workers),
            *added_findings(reports, self.workers),
            *early_findings(reports),
        )

    def _compare_capacity(self) -> None:
        """Hold the engine's own report against the plan."""
        found = compare(self.planned, self.max_model_len, reported_in(all_lines(self.session.folder.log)))
        self._record(capacity=capacity_record(found))
        self._found(found.findings)

    def _found(self, findings: Sequence[Finding]) -> None:
        """What differs from the plan: into the receipt, and a line each where it matters."""
        for finding in findings:
            if finding.severity is Severity.warn:  # a refusal ends the run with a text of its own
                self.reporter.notice(f"{finding.where}: {finding.message} ({finding.fix})")
        self._record(findings=[*self.session.receipt.findings, *finding_records(findings)])

    def _end(self, supervisor: Supervisor, outcome: Outcome) -> None:
        try:
            supervisor.stop(outcome.reason)
        finally:
            seconds = dict(self.timings.seconds)
            self._record(outcome=outcome, timings=seconds, packages=self.packages.result(), **self._last_reports())
            self.reporter.close()

    def _last_reports(self) -> dict[str, Any]:
        """What the workers said last, and what of it differs from the plan and did not before the answer."""
        try:
            reports = read_reports(self.session.folder.workers)
        except CheckFailedError as error:
            self.reporter.notice(f"{error.what}: {error.where}: {error.why}")
            return {}
        if not reports:
            return {}
        known = self.session.receipt.findings
        compared = self._compare(reports) if self.session.receipt.answer is not None else ()
        late = [record for record in finding_records(compared) if record not in known]
        for record in late:
            self.reporter.notice(f"{record['where']}: {record['message']}")
        return {"workers": [report.to_data() for report in reports], "findings": [*known, *late]}

    def _record(self, **changes: Any) -> None:
        try:
            self.session.record(**changes)
        except OSError as error:
            self.reporter.notice(f"the receipt cannot be written: {error}")


class Later:
    """Something read in the background while the engine starts, so that it adds no time."""

    def __init__(self, read: Callable[[], dict[str, Package]]) -> None:
        self._read = read
        self._found: dict[str, Package] = {}
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start reading, unless that was done before."""
        if self._thread is not None:
            return
        self._thread = threading.Thread(target=self._run, daemon=True, name="packages")
        self._thread.start()

    def result(self) -> dict[str, Package]:
        """What was read, waited for if need be; empty if it was never begun."""
        if self._thread is not None:
            self._thread.join()
        return self._found

    def _run(self) -> None:
        self._found = self._read()


def packages_of(python: str) -> Later:
    """The distributions that an interpreter can import."""
    return Later(lambda: installed(import_path(python)))


def _clear_leftovers(reporter: Reporter) -> None:
    for name, survivors in clear(dead_runs(proc.all_processes())).items():
        state = f"; {len(survivors)} do not die" if survivors else ""
        reporter.notice(f"killed what the dead run {name} had left{state}")
