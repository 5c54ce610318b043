"""The deployment that measures: the user's own, with an unquantized cache, eager, and nothing that skips a write."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from toolkit.config.composed import Composed
from toolkit.config.schema.overlay import OverlayConfig
from toolkit.config.schema.verbs import CalibrateConfig
from toolkit.config.schema.views import ScaleValues
from toolkit.config.strict import strict
from toolkit.errors import ConfigurationError

MEASURING: Mapping[tuple[str, str], Any] = {
    ("kv", "dtype"): "float16",  # what an FP8 cache would round is measured before it is rounded
    ("limits", "prefix_caching"): False,  # a prefix that is found is not written
    ("engine", "compile"): False,  # a captured graph does not call the measurement
    ("engine", "measure_kv"): True,
}


def measuring(composed: Composed[CalibrateConfig]) -> Composed[CalibrateConfig]:
    """The configuration as it is carried out; ConfigurationError where it has scales already, or nothing to measure."""
    config = composed.config
    scales = [name for name, given in _scales_of(config).items() if given]
    if scales:
        raise ConfigurationError(
            f"{scales[0]} is set, and calibration measures the base checkpoint without scales",
            where="command line or recipe",
            fix="set overlay=none, and leave out views.declared and views.scales",
        )
    for name, value in (("max_tokens", config.max_tokens), ("limits.max_num_seqs", config.limits.max_num_seqs)):
        if value < 1:
            raise ConfigurationError(f"{name}={value} is too small", fix=f"set {name} to 1 or more")
    if config.max_tokens >= config.limits.max_model_len:
        raise ConfigurationError(
            f"max_tokens={config.max_tokens} leaves no room for a prompt",
            why=f"limits.max_model_len is {config.limits.max_model_len}",
            fix="set a smaller max_tokens",
        )
    values = copy.deepcopy(dict(composed.values))
    for (group, key), value in MEASURING.items():
        values[group][key] = value
    if config.speculative.method != "mtp":  # the checkpoint's own draft layers are measured; other drafts have no pack
        values["speculative"] = {**values["speculative"], "method": "none"}
    return replace(composed, config=strict(values, CalibrateConfig), values=values)


def _scales_of(config: CalibrateConfig) -> dict[str, bool]:
    overlay = config.overlay
    return {
        "overlay": overlay.name != OverlayConfig().name or bool(overlay.path or overlay.repository),
        "views.declared": config.views.declared is not None,
        "views.scales": config.views.scales is not ScaleValues.pack,
    }
