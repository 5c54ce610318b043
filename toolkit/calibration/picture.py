"""The calibration as a picture: each layer's magnitudes, and what E4M3 loses of them with and without the scales."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from toolkit.calibration.report import Calibration
from toolkit.calibration.result import MeasuredScale
from toolkit.calibration.svg import Panel, Series, document, text
from toolkit.views.scales.float32 import E4M3_MAX

PICTURE_FILE = "calibration.svg"
K_COLOR, V_COLOR = "#1668b8", "#d9730d"
WIDTH, PLOT, LEFT = 1000, 760, 80
FLOOR = 1e-7
"""The smallest share that is told from none."""


def picture(calibration: Calibration) -> str:
    """The SVG file's text."""
    layers = sorted({scale.key for scale in calibration.scales})
    names = [f"d{key.number}" if key.draft else str(key.number) for key in layers]

    def row(kind: str, value: Callable[[MeasuredScale], float]) -> list[float | None]:
        found = {scale.key: value(scale) for scale in calibration.scales if scale.kind == kind}
        return [found.get(key) for key in layers]

    heading = f"{calibration.model}: keys and values over {calibration.totals.prompt_tokens:,} prompt tokens"
    elements = [text(LEFT, 26, heading, bold=True), *_magnitudes(names, row), *_losses(names, row)]
    elements.append(text(LEFT + PLOT / 2, 668, "attention layer", anchor="middle"))
    return document(WIDTH, 690, elements)


Row = Callable[[str, Callable[[MeasuredScale], float]], list[float | None]]


def _magnitudes(names: Sequence[str], row: Row) -> list[str]:
    series = [
        Series("K largest", K_COLOR, row("k", lambda scale: scale.whole.largest)),
        Series("K 99.9 %", K_COLOR, row("k", lambda scale: scale.whole.bound(0.999)), filled=False, dashed=True),
        Series("V largest", V_COLOR, row("v", lambda scale: scale.whole.largest)),
        Series("V 99.9 %", V_COLOR, row("v", lambda scale: scale.whole.bound(0.999)), filled=False, dashed=True),
    ]
    values = [value for line in series for value in line.values if value]
    low = 2.0 ** math.floor(math.log2(min(values)))
    high = 2.0 ** math.ceil(math.log2(max(*values, E4M3_MAX + 1)))
    octaves = range(round(math.log2(low)), round(math.log2(high)) + 1)
    step = max(1, len(octaves) // 10)
    marks = [(2.0**power, f"{2.0**power:g}") for power in octaves[::step]]
    panel = Panel("magnitude", LEFT, 70, PLOT, 260, low, high, marks, names)
    return [*panel.draw(series, PLOT + 20), *panel.rule(E4M3_MAX, "448: E4M3 with scale 1 clips above")]


def _losses(names: Sequence[str], row: Row) -> list[str]:
    def shares(kind: str, value: Callable[[MeasuredScale], float]) -> list[float | None]:
        return [None if share is None else max(share, FLOOR) for share in row(kind, value)]

    series = [
        Series("K to zero, scale 1", K_COLOR, shares("k", lambda scale: scale.whole.lost(1.0)), False, True),
        Series("K to zero, calibrated", K_COLOR, shares("k", lambda scale: scale.whole.lost(scale.scale))),
        Series("V to zero, scale 1", V_COLOR, shares("v", lambda scale: scale.whole.lost(1.0)), False, True),
        Series("V to zero, calibrated", V_COLOR, shares("v", lambda scale: scale.whole.lost(scale.scale))),
        Series("K clipped, held out", "#5b2d90", shares("k", lambda scale: scale.held_out)),
        Series("V clipped, held out", "#b0307a", shares("v", lambda scale: scale.held_out)),
        Series("K clipped, scale 1", "#444", shares("k", lambda scale: scale.whole.saturated(1.0)), False, True),
        Series("V clipped, scale 1", "#999", shares("v", lambda scale: scale.whole.saturated(1.0)), False, True),
    ]
    marks = [(10.0**power, f"1e{power}" if power else "1") for power in range(-6, 1)] + [(FLOOR, "none")]
    title = "share of values that become zero or are clipped (held out: by the scale of the other half of the prompts)"
    return list(Panel(title, LEFT, 390, PLOT, 240, FLOOR, 1.0, marks, names).draw(series, PLOT + 20))
