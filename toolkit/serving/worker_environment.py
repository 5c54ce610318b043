"""Whether the engine's workers are what the plan says: on our platform, with its libraries and packages."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from toolkit import __version__
from toolkit.checkpoint.faults import check_failed
from toolkit.config.schema.engine import EngineName
from toolkit.errors import Rejected
from toolkit.planning.platform_demand import Demand
from toolkit.planning.worker_report import WorkerReport
from toolkit.serving.worker_reports import missing_ranks

V100_PLATFORM = "toolkit.plugin.platform.v100.V100Platform"
SM70 = "7.0"
OUR_LIBRARY = "volta_native.so"
OURS = "toolkit"


def planned_folders(import_path: Sequence[Path], environment: Mapping[str, str]) -> tuple[Path, ...]:
    """The folders that the engine may import from: its interpreter's own, and those that the plan adds.

    Empty where the interpreter's own are not known.
    """
    if not import_path:
        return ()
    added = environment.get("PYTHONPATH", "").split(os.pathsep)
    return (*import_path, *(Path(folder) for folder in added if folder))


def check_environment(
    reports: Sequence[WorkerReport], folders: Sequence[Path], engine: str, where: Path, demand: Demand = Demand.v100
) -> None:
    """See that every worker imported from the planned folders, and with engine=v100 took our platform.

    vLLM starts its own CUDA platform when a plugin fails, and says so at debug level only.

    folders: of planned_folders; empty where the interpreter does not say, and then nothing is compared with them.
    where: the folder of the reports.
    demand: with any but any_gpu, an engine=v100 worker must sit on a V100.

    Raises:
        CheckFailedError: each fault is named, by rank.
    """
    v100 = engine == EngineName.v100.value
    missing = missing_ranks(reports) if v100 else []
    faults = [Rejected(f"rank {rank}", "left no report: is volta-toolkit installed beside vLLM?") for rank in missing]
    faults += _crowd(reports)
    for report in reports:
        faults += _foreign(report, [folder.resolve() for folder in folders])
        faults += _platform(report, demand) if v100 else ()
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


def _foreign(report: WorkerReport, roots: Sequence[Path]) -> Iterator[Rejected]:
    for name, path in report.paths.items():
        if name != OURS and roots and not any(Path(path).resolve().is_relative_to(root) for root in roots):
            yield Rejected(f"rank {report.rank}", f"imported {name} from {path}, outside the planned environment")
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
