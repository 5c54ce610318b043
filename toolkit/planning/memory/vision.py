"""The vision encoder's weights, which a model that sees images loads beside its text layers."""

from __future__ import annotations

import re

from toolkit.planning.geometry.model import Vision

_NAME = re.compile(r"(^|\.)(visual|vision_tower|vision_model|vision_encoder|multi_modal_projector)\.")
_MERGED = 4
"""Patches that the merger joins to one token before it projects them (two by two)."""


def is_vision(name: str) -> bool:
    """Whether a tensor belongs to the vision encoder or to the projection behind it."""
    # The plain look comes first: a checkpoint can have 300,000 tensors, and nearly none is of an encoder.
    return ("vis" in name or "multi_modal" in name) and _NAME.search(name) is not None


def vision_weights(vision: Vision) -> int:
    """Number of weights: the layers' attention and feed-forward pair, and the merger; no patch embedding."""
    hidden, merged = vision.hidden_size, _MERGED * vision.hidden_size
    layer = 4 * hidden * hidden + 2 * hidden * vision.intermediate_size
    return vision.layers * layer + merged * merged + merged * vision.out_hidden_size
