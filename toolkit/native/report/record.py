"""The committed report: docs/evidence/static_report.jsonl, one kernel a line, in the order of their names.

One line a kernel, so that branches which add kernels merge; a kernel that two of them changed is listed twice until the
record is renewed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import CheckFailedError
from toolkit.native.report.kernel import KernelReport

PATH = Path("docs") / "evidence" / "static_report.jsonl"


@dataclass(frozen=True)
class Recorded:
    """What the record says of one kernel: its name and the predicted microseconds (None: no shape was declared)."""

    kernel: str
    microseconds: float | None


def lines(reports: Iterable[KernelReport]) -> Iterator[str]:
    """The record's lines."""
    for report in sorted(reports, key=lambda item: item.name):
        line: dict[str, object] = {"kernel": report.name, "registers": report.registers, "shared": report.shared}
        line["local"] = report.local
        if report.prediction and report.occupancy and report.work:
            line["warps"] = report.occupancy.warps
            line["shape"] = report.work.shape
            line["us"] = float(f"{report.prediction.microseconds:.4g}")
            line["limit"] = report.prediction.limit
            line["roofline_us"] = float(f"{report.prediction.roofline:.4g}")
        line["main_loop"] = report.main_loop
        yield json.dumps(line)


def write(path: Path, reports: Iterable[KernelReport]) -> None:
    """Replace the record."""
    path.write_text("".join(f"{line}\n" for line in lines(reports)), encoding="utf-8")


def read(path: Path) -> tuple[Recorded, ...]:
    """The record's kernels in its order. Raises CheckFailedError if a line is none; empty if there is no record."""
    if not path.is_file():
        return ()
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            entry = json.loads(line)
            found.append(Recorded(str(entry["kernel"]), entry.get("us")))
        except (ValueError, KeyError, TypeError) as error:
            raise CheckFailedError(
                "the committed report cannot be read", where=f"{path}:{number}", why=str(error), fix=RENEW
            ) from error
    return tuple(found)


RENEW = "python -m toolkit.report renew=true, and commit the change of the record"
