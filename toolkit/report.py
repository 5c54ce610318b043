"""`python -m toolkit.report`: what each native kernel needs, and how long a V100 takes, from machine code alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path

from toolkit import interrupt  # noqa: F401  (before all that takes time)
from toolkit.config.composed import Composed
from toolkit.config.schema.verbs import Output, ReportConfig
from toolkit.config.search_path import PACKAGE
from toolkit.display.library_text import about
from toolkit.display.page import laid_out
from toolkit.display.report_text import render
from toolkit.errors import ConfigurationError
from toolkit.native import library
from toolkit.native.build import sources_digest
from toolkit.native.check.finding import Finding
from toolkit.native.info import Info, read
from toolkit.native.report import record, rules
from toolkit.native.report.kernel import KernelReport, report
from toolkit.native.report.shapes import Shapes
from toolkit.streams import say, tell
from toolkit.verb import run_verb

FAILED = 5
WIDTH = 150
"""Columns where the output is no terminal."""


def main() -> None:
    """Run the verb and leave with its exit code."""
    sys.exit(run_verb("report", ReportConfig, run))


def run(composed: Composed[ReportConfig]) -> int:
    """Report on the library, and renew the record if asked to; 5 where something is found."""
    config, root = composed.config, PACKAGE.parent
    shapes = root / "kernels" / "shapes.yaml"
    if not shapes.is_file():
        fix = "run report in a checkout of the project"
        raise ConfigurationError("there are no declared shapes here", where=str(shapes), fix=fix)
    path = Path(config.library) if config.library else library.find()
    if not path.is_file():
        raise ConfigurationError("there is no library here", where=f"library={path}", fix="invoke build")
    built = read(path)
    if built.kernels_sha256 != sources_digest(root / "kernels"):
        tell(f"{path} was built from other sources than those in {root / 'kernels'}; `invoke build` makes it anew")
    reports = report(path, Shapes.read(shapes))
    if config.renew:
        record.write(root / record.PATH, reports)
        tell(f"renewed {root / record.PATH}")
    findings = rules.check(reports, record.read(root / record.PATH))
    shown = [item for item in reports if fnmatchcase(item.name, config.kernels)]
    if config.output is Output.json:
        say(json.dumps(document(built, shown, findings), indent=2))
    else:
        say("\n".join(about(built)) + "\n")
        say(laid_out(render(shown, findings), elsewhere=WIDTH), coloured=True)
    return FAILED if findings else 0


def document(built: Info, reports: Sequence[KernelReport], findings: Sequence[Finding]) -> dict[str, object]:
    """The report as JSON."""
    return {
        "schema": 1,
        "library": built.path,
        "abi_revision": built.abi_revision,
        "accumulation": {operator.name: operator.accumulation for operator in built.operators},
        "kernels": [asdict(item) | {"limit": item.prediction and item.prediction.limit} for item in reports],
        "findings": [asdict(item) for item in findings],
    }


if __name__ == "__main__":
    main()
