"""Whether the engine's workers are what the plan says: on our platform, with its libraries and packages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from toolkit import __version__
from toolkit.checkpoint.faults import check_failed
from toolkit.config.schema.engine import EngineName
from toolkit.errors import Rejected
from toolkit.planning.expected import PLATFORMS, ExpectedWorkers
from toolkit.planning.plan import Finding, Severity
from toolkit.planning.platform_demand import Demand
from toolkit.planning.platform_demand import read as demand
from toolkit.planning.worker_report import WorkerReport
from toolkit.serving.worker_imports import import_faults
from toolkit.serving.worker_reports import missing_ranks

V100_PLATFORM = PLATFORMS[EngineName.v100]
SM70 = "7.0"
OUR_LIBRARY = "volta_native.so"
OURS = "toolkit"


def environment_findings(
    reports: Sequence[WorkerReport], planned: ExpectedWorkers, environment: Mapping[str, str], where: Path
) -> tuple[Finding, ...]:
    """What keeps a run from counting: missing workers, imports from outside the plan, with engine=v100 another GPU.

    vLLM starts its own CUDA platform when a plugin fails, and says so at debug level only.

    environment: what the engine's processes see. where: the folder of the reports.
    """
    missing = missing_ranks(reports)
    unheard = "left no report: is volta-toolkit installed beside vLLM?"
    found = [*_findings("workers-missing", (Rejected(f"rank {rank}", unheard) for rank in missing))]
    found += _findings("workers-mixed", _crowd(reports))
    if planned.imports is None:
        unknown = Rejected("imports", f"nothing is known to compare them with: {planned.silence}")
        found += _findings("workers-imports", (unknown,))
    for report in reports:
        if planned.imports is not None:
            found += _findings("workers-imports", import_faults(report, planned.imports, environment, where.parent))
        found += _findings("workers-version", _other_toolkit(report))
        if planned.engine == EngineName.v100.value:
            found += _findings("workers-gpu", _gpu(report, demand(environment)))
    return tuple(found)


def refuse_workers(findings: Sequence[Finding], where: Path) -> None:
    """See that none of the findings is a refusal. Raises CheckFailedError: all that are, by worker."""
    faults = [Rejected(each.where, each.message) for each in findings if each.severity is Severity.refuse]
    if faults:
        fix = "start from the environment that ./quickstart setup makes, without a PYTHONPATH of other checkouts"
        raise check_failed(tuple(faults), where=str(where), fix=fix)


def _findings(rule: str, faults: Iterable[Rejected]) -> Iterator[Finding]:
    yield from (Finding(rule, Severity.refuse, fault.candidate, fault.reason) for fault in faults)


def _crowd(reports: Sequence[WorkerReport]) -> Iterator[Rejected]:
    """Reports that cannot be of one start."""
    sizes, ranks = {report.world_size for report in reports}, Counter(report.rank for report in reports)
    if len(sizes) > 1:
        yield Rejected("workers", f"say that they are {' and '.join(map(str, sorted(sizes)))}")
    for rank, count in sorted(ranks.items()):
        if count > 1:
            yield Rejected(f"rank {rank}", f"left {count} reports: a worker was started again, or two are one rank")


def _other_toolkit(report: WorkerReport) -> Iterator[Rejected]:
    version = report.versions.get(OURS, __version__)
    if version != __version__:
        yield Rejected(f"rank {report.rank}", f"runs volta-toolkit {version}, and this is {__version__}")


def _gpu(report: WorkerReport, demand: Demand) -> Iterator[Rejected]:
    runtime, rank = report.runtime, f"rank {report.rank}"
    if runtime is None or runtime.platform != V100_PLATFORM:
        return
    if demand is not Demand.any_gpu and runtime.capability != SM70:
        yield Rejected(rank, f"runs on {runtime.device}, whose capability is {runtime.capability}, not {SM70}")
    for path in runtime.native_libraries:
        if not path.endswith(OUR_LIBRARY):
            yield Rejected(rank, f"has loaded {path}, which has no code for SM70")
