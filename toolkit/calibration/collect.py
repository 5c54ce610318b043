"""The two sides of a measurement: telling the workers what runs now, and reading what they counted."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolkit.calibration.drive import CancelledError, Sizes, Totals, run_prompts
from toolkit.calibration.prompts import Prompt, PromptSet
from toolkit.checkpoint.progress import Progress, Silent, step
from toolkit.engine.http import Client
from toolkit.errors import CheckFailedError
from toolkit.planning.kv_measurement import CONTROL_FILE, Measurement, measurement_from
from toolkit.runs.atomic import write_text
from toolkit.runs.folder import RunFolder

SEGMENTS = ("first-half", "second-half")
WRITTEN_S = 30.0
"""A worker writes what it counted at the start of the step that follows."""
AFTERWARDS = Prompt("The end.")
"""Makes the step in which workers see that a segment is over; not measured itself."""


@dataclass
class Collection:
    """Runs both halves of a set of prompts through a server whose workers measure; what a run's `work` calls."""

    prompts: PromptSet
    sizes: Sizes
    folder: RunFolder
    progress: Progress
    totals: Totals = Totals()  # noqa: RUF009  (frozen)

    def __call__(self, client: Client, cancelled: threading.Event) -> None:
        """Measure; raises EngineError, CheckFailedError, CancelledError."""
        size = sum(prompt.size for prompt in self.prompts.prompts)
        with step(self.progress, "measuring keys and values of the prompts", size):
            for segment, prompts in zip(SEGMENTS, self.prompts.halves, strict=True):
                self._announce(segment)
                self.totals += run_prompts(client, prompts, self.sizes, cancelled, self.progress)
                self._announce(None)
                run_prompts(client, [AFTERWARDS], Sizes(1, self.sizes.max_model_len, 1), cancelled, Silent())
                self._await(segment, cancelled)

    def _announce(self, segment: str | None) -> None:
        self.folder.measurements.mkdir(exist_ok=True, mode=0o700)
        write_text(self.folder.measurements / CONTROL_FILE, json.dumps({"segment": segment}))

    def _await(self, segment: str, cancelled: threading.Event) -> None:
        """Wait until every worker has written."""
        deadline = time.monotonic() + WRITTEN_S
        while absent := _absent(read_measurements(self.folder.measurements, segment)):
            if cancelled.wait(0.05):
                raise CancelledError
            if time.monotonic() > deadline:
                raise CheckFailedError(
                    f"the workers of {absent} have not measured anything",
                    where=str(self.folder.measurements),
                    why="their plugin does not measure, or cannot write there",
                    fix="look at the run's log; the engine's environment needs this volta-toolkit",
                )


def read_measurements(folder: Path, segment: str) -> tuple[Measurement, ...]:
    """What the workers counted during a segment, by rank; CheckFailedError for a damaged file."""
    return tuple(sorted(_read(folder, segment), key=lambda found: found.rank))


def _read(folder: Path, segment: str) -> Iterator[Measurement]:
    for path in folder.glob(f"{segment}-rank*.json"):
        try:
            yield measurement_from(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise CheckFailedError("a measurement cannot be read", where=str(path), why=str(error)) from error


def _absent(found: Sequence[Measurement]) -> str:
    """The ranks that are still to write, in words; empty if there are none."""
    if not found:
        return "all ranks"
    ranks = sorted(set(range(found[0].world_size)) - {measurement.rank for measurement in found})
    return f"ranks {', '.join(map(str, ranks))}" if ranks else ""
