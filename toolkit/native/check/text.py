"""A wheel's check as text: which of its libraries a V100 can run, and what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from toolkit.counted import counted
from toolkit.native.check.finding import Finding
from toolkit.native.check.report import Report

SHOWN = 3
"""Of one rule's findings; a large wheel may break a rule in every one of a hundred libraries."""


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
    for _, found in groupby(sorted(report.findings, key=_first_seen(report.findings)), lambda finding: finding.rule):
        yield from _of_one_rule(list(found))
    yield _ending(report, carrying)


def _first_seen(findings: Sequence[Finding]) -> Callable[[Finding], int]:
    """The order of rules as they first appear."""
    rules = list(dict.fromkeys(finding.rule for finding in findings))
    return lambda finding: rules.index(finding.rule)


def _of_one_rule(findings: Sequence[Finding]) -> Iterator[str]:
    shown = findings if len(findings) <= SHOWN + 1 else findings[:SHOWN]
    for number, finding in enumerate(shown):
        yield f"  {finding}"
        following = shown[number + 1 : number + 2]
        if finding.fix and not (following and following[0].fix == finding.fix):
            yield f"    fix: {finding.fix}"
    if more := len(findings) - len(shown):
        yield f"  {findings[0].rule}: {more} more; output=json lists all"


def _ending(report: Report, carrying: Mapping[str, Mapping[str, Any]]) -> str:
    if report.passed:
        return "passed every check"
    return f"failed: {counted(len(report.findings), 'finding')} ({_verdict(carrying)})"


def _verdict(carrying: Mapping[str, Mapping[str, Any]]) -> str:
    running = sum(bool(library["runs_on_v100"]) for library in carrying.values())
    if not carrying:
        return "carries no GPU code"
    if running == len(carrying):
        return "runs on a V100"
    if not running:
        return "does not run on a V100"
    return f"{running} of {counted(len(carrying), 'library', 'libraries')} with GPU code run on a V100"


def _target(code: Mapping[str, Any]) -> str:
    return f"{code['target']} ({code['objects']})"
