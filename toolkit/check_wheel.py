"""`python -m toolkit.check_wheel wheel=FILE`: what a wheel carries, whether it runs on a V100, and what is wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from toolkit.config.composed import Composed
from toolkit.config.schema.verbs import CheckWheelConfig, Output
from toolkit.native.check import Report, check_wheel
from toolkit.native.check.text import text
from toolkit.streams import say
from toolkit.verb import run_verb

FAILED = 5


def main() -> None:
    """Run the verb and leave with its exit code."""
    sys.exit(run_verb("check_wheel", CheckWheelConfig, run))


def run(composed: Composed[CheckWheelConfig]) -> int:
    """Check one wheel; 5 where something is wrong."""
    return report_on(check_wheel(Path(composed.config.wheel)), composed.config.output)


def report_on(report: Report, output: Output, manifest: Path | None = None) -> int:
    """Print what was found, keep the manifest if a place is named, and return the exit code."""
    document = json.dumps(report.manifest, indent=2)
    if manifest is not None:
        manifest.write_text(document + "\n", encoding="utf-8")
    say(document if output is Output.json else text(report))
    return 0 if report.passed else FAILED


if __name__ == "__main__":
    main()
