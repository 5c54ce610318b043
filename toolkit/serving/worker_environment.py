"""Whether the engine's workers are what the plan says: on our platform, with its libraries and packages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from toolkit import __version__
from toolkit.checkpoint.faults import check_failed
from toolkit.config.schema.engine import EngineName
from toolkit.errors import Rejected
from toolkit.planning.expected import ExpectedWorkers
from toolkit.planning.platform_demand import Demand
from toolkit.planning.platform_demand import read as demand
from toolkit.planning.worker_report import WorkerReport
from toolkit.serving.worker_imports import import_faults
from toolkit.serving.worker_reports import missing_ranks

V100_PLATFORM = "toolkit.plugin.platform.v100.V100Platform"
SM70 = "7.0"
OUR_LIBRARY = "volta_native.so"
OURS = "toolkit"


def check_environment(
    reports: Sequence[WorkerReport], planned: ExpectedWorkers, environment: Mapping[str, str], where: Path
) -> None:
    """See that every worker imported from the planned environment alone, and with engine=v100 took our platform.

    vLLM starts its own CUDA platform when a plugin fails, and says so at debug level only.

    environment: what the engine's processes see. where: the folder of the reports.

    Raises:
        CheckFailedError: each fault is named, by rank.
    """
    missing = missing_ranks(reports)
    faults = [Rejected(f"rank {rank}", "left no report: is volta-toolkit installed beside vLLM?") for rank in missing]
    faults += _crowd(reports)
    if planned.imports is None:
        faults.append(Rejected("imports", f"nothing is known to compare them with: {planned.silence}"))
    for report in reports:
        faults += import_faults(report, planned.imports, environment, where.parent) if planned.imports else ()
        faults += _other_toolkit(report)
        faults += _platform(report, demand(environment)) if planned.engine == EngineName.v100.value else ()
    if faults:
        fix = "start from the environment that ./quickstart setup makes, without a PYTHONPATH of other checkouts"
        raise check_failed(tuple(faults), where=str(where), fix=fix)


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


def _platform(report: WorkerReport, demand: Demand) -> Iterator[Rejected]:
    runtime, rank = report.runtime, f"rank {report.rank}"
    if runtime is None or runtime.platform != V100_PLATFORM:
        found = runtime.platform if runtime else "that it does not name"
        yield Rejected(rank, f"runs on the platform {found}, not on {V100_PLATFORM}")
        return
    if demand is not Demand.any_gpu and runtime.capability != SM70:
        yield Rejected(rank, f"runs on {runtime.device}, whose capability is {runtime.capability}, not {SM70}")
    for path in runtime.native_libraries:
        if not path.endswith(OUR_LIBRARY):
            yield Rejected(rank, f"has loaded {path}, which has no code for SM70")
