"""A wheel's check as text: which of its libraries a V100 can run, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from toolkit.native.check.report import Report


def text(report: Report) -> str:
    """The report line by line. A number in brackets says how many objects of device code are for that target."""
    return "\n".join(_lines(report))


def _lines(report: Report) -> Iterator[str]:
    libraries = report.manifest["libraries"]
    carrying = {name: library for name, library in libraries.items() if library["device_code"]}
    yield f"{report.manifest['wheel']}: {_verdict(carrying)}"
    for name, library in carrying.items():
        mark = "runs on a V100" if library["runs_on_v100"] else "does not"
        yield f"  {mark:14}  {name}: {', '.join(_target(code) for code in library['device_code'])}"
    for number, finding in enumerate(report.findings):
        yield f"  {finding}"
        following = report.findings[number + 1 : number + 2]
        if finding.fix and not (following and following[0].fix == finding.fix):
            yield f"    fix: {finding.fix}"
    yield "passed every check" if report.passed else f"failed: {len(report.findings)} findings"


def _verdict(carrying: Mapping[str, Mapping[str, Any]]) -> str:
    running = sum(bool(library["runs_on_v100"]) for library in carrying.values())
    if not carrying:
        return "carries no GPU code"
    if running == len(carrying):
        return "runs on a V100"
    if not running:
        return "does not run on a V100"
    return f"{running} of {len(carrying)} libraries with GPU code run on a V100"


def _target(code: Mapping[str, Any]) -> str:
    return f"{code['target']} ({code['objects']})"
