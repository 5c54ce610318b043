"""What the report objects to: local memory, too much shared memory, a slower prediction, what is not declared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from toolkit.native.check.finding import Finding
from toolkit.native.report.gpu import V100
from toolkit.native.report.kernel import KernelReport
from toolkit.native.report.record import RENEW, Recorded

WORSE = 1.03
"""A prediction may be this much of the committed one."""


def check(reports: Sequence[KernelReport], recorded: Sequence[Recorded]) -> tuple[Finding, ...]:
    """All findings: of each kernel, then of the record."""
    return (*(finding for report in reports for finding in _kernel(report)), *_record(reports, recorded))


def _kernel(report: KernelReport) -> Iterator[Finding]:
    if report.local:
        message = f"a thread keeps {report.local} bytes in local memory, which is DRAM behind a cache"
        fix = "fewer values alive at once, a smaller tile, constant indices, or a looser __launch_bounds__"
        yield Finding("spill", report.name, message, fix)
    if report.shared > V100.shared:
        message = f"a block takes {report.shared} bytes of shared memory; a V100 has {V100.shared}"
        yield Finding("shared-memory", report.name, message, "a smaller tile, or fewer stages")
    if report.work is None:
        fix = "declare its shape, bytes and launch in kernels/shapes.yaml (docs/report.md)"
        yield Finding("no-shape", report.name, "no shape is declared for this operation and layout", fix)
    elif report.occupancy is not None and report.occupancy.blocks == 0 and report.shared <= V100.shared:
        message = f"a V100 cannot launch it: {report.work.threads} threads with {report.registers} registers each"
        yield Finding("launch", report.name, message, "fewer threads a block, or __launch_bounds__")


def _record(reports: Iterable[KernelReport], recorded: Sequence[Recorded]) -> Iterator[Finding]:
    here = {report.name: report for report in reports}
    for name, times in sorted(Counter(entry.kernel for entry in recorded).items()):
        if times > 1:
            yield Finding("record", name, f"it is in the committed report {times} times", RENEW)
        elif name not in here:
            yield Finding("record", name, "it is in the committed report, but not in the library", RENEW)
    known = {entry.kernel: entry.microseconds for entry in recorded}
    for name, report in here.items():
        before = known.get(name)
        if report.prediction is None:
            continue
        if before is None:
            yield Finding("record", name, "it is not in the committed report", RENEW)
        elif report.prediction.microseconds > WORSE * before:
            now = report.prediction.microseconds
            message = f"predicted {now:.4g} us, {now / before - 1:.1%} more than the committed {before:.4g} us"
            fix = f"see what the main loop gained (docs/report.md); if it is meant: {RENEW}"
            yield Finding("slower", name, f"{message}, limited by {report.prediction.limit}", fix)
