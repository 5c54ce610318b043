"""The calibration's report: every scale, what it was made from, and how far to trust it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from toolkit.calibration.code_use import CodeUse, code_use
from toolkit.calibration.drive import Totals
from toolkit.calibration.prompts import PromptSet
from toolkit.calibration.result import MeasuredScale
from toolkit.counted import counted

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

    def codes(self, kind: str, *, unit: bool = False) -> CodeUse:
        """How all layers' scales use E4M3's codes for keys (`k`) or values (`v`); unit: as scales of 1 would."""
        scales = [scale for scale in self.scales if scale.kind == kind]
        return code_use([(scale.whole, 1.0 if unit else scale.scale) for scale in scales])

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
            notes.append(f"{self.totals.cut:,} of {counted(self.totals.prompts, 'prompt')} cut to limits.max_model_len")
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
            "codes": {
                kind: {"scale": asdict(self.codes(kind)), "unit": asdict(self.codes(kind, unit=True))} for kind in "kv"
            },
            "scales": [_entry(scale) for scale in self.scales],
        }


def _entry(scale: MeasuredScale) -> dict[str, Any]:
    whole = scale.whole
    used, unit = (asdict(code_use([(whole, by)])) for by in (scale.scale, 1.0))
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
        **{name: {"scale": used[name], "unit": unit[name]} for name in used},
        "octaves": whole.octaves(),
    }
