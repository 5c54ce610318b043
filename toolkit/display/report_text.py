"""The static report as text for the terminal: one table an operation, then what was found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from toolkit.counted import counted
from toolkit.display.words import joined, words
from toolkit.native.check.finding import Finding
from toolkit.native.names import parse
from toolkit.native.report.gpu import V100
from toolkit.native.report.kernel import KernelReport
from toolkit.native.report.predict import Prediction

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_MATTERS = ("HMMA", "LDG", "STG", "LDS", "STS", "ATOM", "RED", "LDL", "STL", "BAR", "MUFU")
_OTHERS = 2
"""How many of the other instructions are shown, the most frequent first."""


def render(reports: Sequence[KernelReport], findings: Sequence[Finding]) -> Iterator[RenderableType]:
    """The report's parts in reading order: findings and verdict last, where the eye ends."""
    rates = f"{V100.dram / 1e9:.0f} GB/s, {V100.tensor / 1e12:.0f} TFLOP/s tensor, {V100.fp32 / 1e12:.1f} TFLOP/s FP32"
    yield words(f"{counted(len(reports), 'kernel')} on a {V100.name}: {rates}", style="bold")
    for operation, group in groupby(reports, key=lambda report: parse(report.name).operation):
        yield words("")
        yield _table(operation, tuple(group))
    if findings:
        yield words("\nfindings", style="bold underline")
    for fix, alike in groupby(findings, key=lambda finding: finding.fix):
        for finding in alike:
            yield joined(words(f"{finding.rule} ", "bold red"), words(f"{finding.where}: {finding.message}"))
        yield words(f"  fix: {fix}", style="cyan")
    verdict = counted(len(findings), "finding") if findings else "nothing to object to"
    yield words(f"\n{verdict}", style="bold red" if findings else "bold green")


def _table(operation: str, reports: Sequence[KernelReport]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=operation, title_justify="left", title_style="bold", pad_edge=False)
    table.add_column("types, layout", no_wrap=True)
    for title in ("regs", "shared", "warps", "MB", "µs", "roofline", "on chip"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("main loop", ratio=1)
    for report in reports:
        name = parse(report.name)
        table.add_row(
            f"{' '.join(name.types)} {name.layout}",
            str(report.registers),
            str(report.shared or ""),
            *_predicted(report),
            loop_text(report.main_loop),
        )
    shapes = dict.fromkeys(report.work.shape for report in reports if report.work)
    table.caption, table.caption_justify = "; ".join(shapes), "left"
    return table


def _predicted(report: KernelReport) -> tuple[str, str, str, str, str]:
    if report.work is None or report.occupancy is None or report.prediction is None:
        return ("", "", "", "", "")
    found = report.prediction
    return (
        f"{report.occupancy.warps}/{V100.warps}",
        f"{report.work.dram / 1e6:.1f}",
        f"{found.microseconds:.1f} {found.limit}",
        f"{found.roofline / found.microseconds:.0%}",
        _on_chip(found),
    )


def _on_chip(found: Prediction) -> str:
    """The slowest part apart from DRAM: how much more a kernel may do before it becomes slower."""
    name = max((part for part in found.parts if part not in {"dram", "launch"}), key=lambda part: found.parts[part])
    return f"{found.parts[name]:.1f} {name}"


def loop_text(main_loop: Mapping[str, int]) -> str:
    """The loop's instructions: those that usually matter, then the most frequent others."""
    matter = [name for name in main_loop if name.startswith(_MATTERS)]
    matter.sort(key=lambda name: next(place for place, start in enumerate(_MATTERS) if name.startswith(start)))
    others = [name for name in main_loop if name not in matter]
    shown = [f"{main_loop[name]} {name}" for name in (*matter, *others[:_OTHERS])]
    rest = sum(main_loop[name] for name in others[_OTHERS:])
    return ", ".join([*shown, f"{rest} more"] if rest else shown)
