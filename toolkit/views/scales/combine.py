"""Scales that nobody measured: the unit control, and stand-ins for a draft's own."""

from __future__ import annotations

import re
from collections.abc import Mapping

from toolkit.errors import CheckFailedError, ConfigurationError
from toolkit.views.scales.names import ScaleNames, layer_and_kind
from toolkit.views.scales.pack import SCALE_FILE, ScalePack, make_pack

UNIT = "prototype:unit"
_FROM_LAYER = re.compile(r"prototype:from-layer-(\d+)")


def unit_pack(names: ScaleNames, base_index_sha256: str) -> ScalePack:
    """The negative control: every scale 1.0, target and draft, which clips what is larger than 448."""
    scales = dict.fromkeys(names.target | names.draft, 1.0)
    return make_pack("unit-scale-negative-control", base_index_sha256, scales, {}, SCALE_FILE)


def draft_scales(source: str, names: ScaleNames, target: Mapping[str, float]) -> dict[str, float]:
    """Stand-ins for scales that no calibration measured on the draft: `prototype:unit` or `prototype:from-layer-N`.

    Raises ConfigurationError for another source, CheckFailedError where layer N has no scales.
    """
    if source == UNIT:
        return dict.fromkeys(names.draft, 1.0)
    match = _FROM_LAYER.fullmatch(source)
    if match is None:
        raise ConfigurationError(
            f"views.draft_scales={source!r} is unknown",
            fix=f"use calibrated, {UNIT}, or prototype:from-layer-N",
        )
    layer = int(match[1])
    by_kind = {kind: target.get(f"{names.prefix}.layers.{layer}.self_attn.{kind}_scale") for kind in "kv"}
    for kind, value in by_kind.items():
        if value is None:
            raise CheckFailedError(
                f"the pack has no {kind}_scale of layer {layer}, which {source} takes the draft's from",
                fix="name an attention layer of the target",
            )
    return {name: by_kind[(layer_and_kind(name) or (0, "k"))[1]] or 0.0 for name in names.draft}
