"""A worker's report from plain data: whoever wrote it, what is no report is an error with its place."""

from __future__ import annotations

from typing import Any

from toolkit.machine.decode import decode
from toolkit.planning.worker_report import WORKER_REPORT_SCHEMA, WorkerReport

MOST_WORKERS = 1024
"""More than one machine has; a larger number would be counted through, rank by rank."""


def report_from(data: Any) -> WorkerReport:
    """A report from plain data; ValueError says what does not fit, and where."""
    if not isinstance(data, dict) or data.get("schema") != WORKER_REPORT_SCHEMA:
        found = data.get("schema") if isinstance(data, dict) else None
        raise ValueError(f"a worker's report has schema {found!r}, and {WORKER_REPORT_SCHEMA} is read")
    report = decode(WorkerReport, {name: value for name, value in data.items() if name != "schema"}, "report")
    if not 0 <= report.rank < report.world_size <= MOST_WORKERS:
        raise ValueError(f"report.rank: there is no rank {report.rank} of {report.world_size} workers")
    if any("\0" in path for path in report.paths.values()):
        raise ValueError("report.paths: no path has a zero byte in it")
    return report
