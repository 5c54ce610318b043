"""`python -m toolkit.check_wheel wheel=FILE`: what a wheel carries, whether it runs on a V100, and what is wrong."""

from __future__ import annotations

import sys
from pathlib import Path

from toolkit import interrupt  # noqa: F401  (before all that takes time)
from toolkit.config.composed import Composed
from toolkit.config.schema.verbs import CheckWheelConfig, Output
from toolkit.native.check import check_wheel
from toolkit.native.check.text import text
from toolkit.streams import say
from toolkit.verb import run_verb

FAILED = 5


def main() -> None:
    """Run the verb and leave with its exit code."""
    sys.exit(run_verb("check_wheel", CheckWheelConfig, run))


def run(composed: Composed[CheckWheelConfig]) -> int:
    """Check one wheel; 5 where something is wrong."""
    report = check_wheel(Path(composed.config.wheel))
    say(report.document if composed.config.output is Output.json else text(report))
    return 0 if report.passed else FAILED


if __name__ == "__main__":
    main()
