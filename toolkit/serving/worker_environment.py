"""Whether the engine's workers are what the plan says: on our platform, with its libraries and packages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from toolkit.checkpoint.faults import check_failed
from toolkit.config.schema.engine import EngineName
from toolkit.errors import Rejected
from toolkit.planning.expected import PLATFORMS, ExpectedWorkers
from toolkit.planning.plan import Finding, Severity
from toolkit.planning.platform_demand import Demand
from toolkit.planning.platform_demand import read as demand
from toolkit.planning.worker_report import WorkerReport
from toolkit.serving.worker_imports import import_findings
from toolkit.serving.worker_reports import missing_ranks

V100_PLATFORM = PLATFORMS[EngineName.v100]
SM70 = "7.0"
OUR_LIBRARY = "volta_native.so"
ONE_START = "start again, and look in the engine's log for why a worker was started twice"
REPORTS = "see that volta-toolkit is installed beside vLLM; where it is, the engine's log says why there is no report"


def environment_findings(
    reports: Sequence[WorkerReport], planned: ExpectedWorkers, environment: Mapping[str, str], where: Path
) -> tuple[Finding, ...]:
    """What keeps a run from counting: missing workers, imports from outside the plan, with engine=v100 another GPU.

    vLLM starts its own CUDA platform when a plugin fails, and says so at debug level only.

    environment: what the engine's processes see. where: the folder of the reports.
    """
    found = [
        _refusal("workers-missing", f"rank {rank}", "left no report", REPORTS)
        for rank in missing_ranks(reports, planned.count)
    ]
    found += _crowd(reports)
    if planned.imports is None:
        said = f"nothing is known to compare them with: {planned.silence}"
        found.append(_refusal("workers-imports", "imports", said, "name an interpreter that works with engine.python"))
    for report in reports:
        if planned.imports is not None:
            found += import_findings(report, planned.imports, environment, where.parent)
        if planned.engine == EngineName.v100.value:
            found += _gpu(report, demand(environment))
    return tuple(found)


def refuse_workers(findings: Sequence[Finding], where: Path) -> None:
    """See that none of the findings is a refusal. Raises CheckFailedError: all that are, each with its fix."""
    faults = [
        Rejected(each.where, f"{each.message}{each.fix and f'; {each.fix}'}")
        for each in findings
        if each.severity is Severity.refuse
    ]
    if faults:
        raise check_failed(faults, where=str(where), fix="")


def _refusal(rule: str, where: str, message: str, fix: str) -> Finding:
    return Finding(rule, Severity.refuse, where, message, fix)


def _crowd(reports: Sequence[WorkerReport]) -> Iterator[Finding]:
    """Reports that cannot be of one start."""
    sizes, ranks = {report.world_size for report in reports}, Counter(report.rank for report in reports)
    if len(sizes) > 1:
        said = f"say that they are {' and '.join(map(str, sorted(sizes)))}"
        yield _refusal("workers-mixed", "workers", said, ONE_START)
    for rank, count in sorted(ranks.items()):
        if count > 1:
            said = f"left {count} reports: a worker was started again, or two are one rank"
            yield _refusal("workers-mixed", f"rank {rank}", said, ONE_START)


def _gpu(report: WorkerReport, demand: Demand) -> Iterator[Finding]:
    runtime, rank = report.runtime, f"rank {report.rank}"
    if runtime is None or runtime.platform != V100_PLATFORM:
        return
    if demand is not Demand.any_gpu and runtime.capability != SM70:
        said = f"runs on {runtime.device}, whose capability is {runtime.capability}, not {SM70}"
        fix = "hide it with CUDA_VISIBLE_DEVICES, or set engine.prove_on_any_gpu=true for a functional proof"
        yield _refusal("workers-gpu", rank, said, fix)
    for path in runtime.native_libraries:
        if not path.endswith(OUR_LIBRARY):
            fix = "start from the environment that ./quickstart setup engine=v100 makes, where vLLM has no library"
            yield _refusal("workers-gpu", rank, f"has loaded {path}, which has no code for SM70", fix)
