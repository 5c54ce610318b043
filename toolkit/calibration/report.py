"""The calibration's report: every scale, what it was made from, and how far to trust it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from toolkit.calibration.drive import Totals
from toolkit.calibration.prompts import PromptSet
from toolkit.calibration.result import MeasuredScale

REPORT_SCHEMA = 1
REPORT_FILE = "calibration.json"
UNSTABLE = 1.25
"""A ratio of the halves' maxima above which the report says so: E4M3's steps are an eighth of an octave apart."""


@dataclass(frozen=True)
class Calibration:
    """One calibration, as its report tells it."""

    artifact: str
    model: str
    base_index_sha256: str
    prompts: PromptSet
    totals: Totals
    scales: Sequence[MeasuredScale]
    run: Mapping[str, Any]
    """Name of the run, toolkit's and engine's versions."""

    @property
    def least_stable(self) -> MeasuredScale:
        """The scale on which the halves of the prompts agree least."""
        return max(self.scales, key=lambda scale: scale.ratio)

    def notes(self) -> list[str]:
        """What its user should know."""
        notes = []
        unstable = [scale for scale in self.scales if scale.ratio > UNSTABLE]
        if unstable:
            worst = self.least_stable
            notes.append(
                f"{len(unstable)} of {len(self.scales)} maxima differ by more than {UNSTABLE:g} between the halves of "
                f"the prompts, {worst.name} by {worst.ratio:.2f}: other prompts may well be clipped there"
            )
        if self.totals.cut:
            notes.append(f"{self.totals.cut} of {self.totals.prompts} prompts were cut to limits.max_model_len")
        return notes

    def to_data(self) -> dict[str, Any]:
        """The report as plain data (schema REPORT_SCHEMA)."""
        worst = self.least_stable
        return {
            "schema": REPORT_SCHEMA,
            "artifact_id": self.artifact,
            "model": self.model,
            "base_index_sha256": self.base_index_sha256,
            "prompts": {
                "source": self.prompts.source,
                "sha256": self.prompts.sha256,
                "left_out": self.prompts.left_out,
                **asdict(self.totals),
            },
            "run": dict(self.run),
            "stability": {"largest_ratio": worst.ratio, "scale": worst.name},
            "notes": self.notes(),
            "scales": [_entry(scale) for scale in self.scales],
        }


def _entry(scale: MeasuredScale) -> dict[str, Any]:
    whole = scale.whole
    return {
        "name": scale.name,
        "layer": scale.key.number,
        "draft": scale.key.draft,
        "kind": scale.kind,
        "scale": scale.scale,
        "max_abs": whole.largest,
        "p99_9": whole.bound(0.999),
        "p99_99": whole.bound(0.9999),
        "count": whole.count,
        "max_abs_by_half": [half.largest for half in scale.halves],
        "ratio": scale.ratio,
        "held_out_saturated": scale.held_out,
        "saturated": {"scale": whole.saturated(scale.scale), "unit": whole.saturated(1.0)},
        "lost": {"scale": whole.lost(scale.scale), "unit": whole.lost(1.0)},
        "octaves": whole.octaves(),
    }
