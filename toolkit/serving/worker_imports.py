"""Whether the engine's workers imported from the planned environment and from nowhere else."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from toolkit.planning.expected import ExpectedWorkers, ImportFolders
from toolkit.planning.plan import Finding, Severity
from toolkit.planning.worker_report import ImportRoot, WorkerReport

OURS = frozenset({"toolkit", "kernels"})
"""What a checkout of the toolkit may be imported for: transformers asks for a package `kernels`, and finds ours."""
INSTALLED = frozenset({"site-packages", "dist-packages"})
PROJECT = ("pyproject.toml", "setup.py", ".git")


def import_findings(
    report: WorkerReport, planned: ImportFolders, environment: Mapping[str, str], run: Path
) -> Iterator[Finding]:
    """Every folder outside the plan that a worker imported from: what, from where, why, and the fix.

    environment: what the engine's processes see. run: their working directory.
    """
    where = f"rank {report.rank}"
    if not report.imports:
        fix = "install this volta-toolkit beside vLLM"
        yield Finding("workers-imports", Severity.refuse, where, "does not say where it imported from", fix)
    for root in report.imports:
        if not (root.generated or _of_environment(root, planned) or _added(root, planned)):
            why, fix = _explain(Path(root.folder), environment, run)
            said = f"imported {_named(root)} from {root.folder}, outside the planned environment: {why}"
            yield Finding("workers-imports", Severity.refuse, where, said, fix)


def added_findings(reports: Sequence[WorkerReport], expected: ExpectedWorkers) -> tuple[Finding, ...]:
    """What was imported from folders that the plan itself puts before the environment's own."""
    found: dict[str, set[str]] = {}
    planned = expected.imports
    if planned is None:
        return ()
    for report in reports:
        for root in report.imports:
            if not (root.generated or _of_environment(root, planned)) and _added(root, planned):
                found.setdefault(root.folder, set()).add(_named(root))
    return tuple(
        Finding(
            "workers-added-imports",
            Severity.warn,
            "engine.environment.PYTHONPATH",
            f"the workers imported {', '.join(sorted(names))} from {folder}, which comes before the environment's own",
            "install what is meant into the environment, and leave PYTHONPATH alone",
        )
        for folder, names in sorted(found.items())
    )


def _of_environment(root: ImportRoot, planned: ImportFolders) -> bool:
    """The interpreter's own, or the toolkit's checkout for what it may be imported for."""
    if any(_below(root.folder, folder) for folder in planned.packages):
        return True
    if any(
        _below(root.folder, folder) and INSTALLED.isdisjoint(Path(os.path.relpath(root.folder, folder)).parts)
        for folder in planned.standard
    ):
        return True
    return planned.toolkit is not None and _same(root.folder, planned.toolkit) and OURS.issuperset(root.modules)


def _added(root: ImportRoot, planned: ImportFolders) -> bool:
    return any(_below(root.folder, folder) for folder in planned.added)


def _explain(folder: Path, environment: Mapping[str, str], run: Path) -> tuple[str, str]:
    """Why the folder is on the path, and what to do about it."""
    named = [each for each in environment.get("PYTHONPATH", "").split(os.pathsep) if each]
    if any(_below(str(folder), each) for each in named):
        return "PYTHONPATH names it", "take PYTHONPATH out of engine.inherit"
    if _below(str(folder), str(run)):
        return "it is the run's own folder", "nothing may be put there: find out what did"
    if re.search(r"/\.local/lib/python[0-9.]+/site-packages", str(folder)):
        return "it is the user's own packages", "leave PYTHONNOUSERSITE=1 as the plan sets it"
    if not INSTALLED.isdisjoint(folder.parts):
        return "it belongs to another environment", "remove the .pth file or the code that puts it on the path"
    if any((folder / name).exists() for name in PROJECT):
        return "it is a source checkout", "install the release instead, without `-e`, and remove its .pth file"
    return "the plan does not name it", "remove the .pth file or the code that puts it on the path"


def _named(root: ImportRoot) -> str:
    more = root.count - len(root.modules)
    return ", ".join(root.modules) + (f" and {more} more" if more > 0 else "")


def _below(path: str, folder: str) -> bool:
    return Path(path).resolve().is_relative_to(Path(folder).resolve())


def _same(path: str, folder: str) -> bool:
    return Path(path).resolve() == Path(folder).resolve()
