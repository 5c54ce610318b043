"""The vision encoder: its weights, and what images and videos take while they are encoded."""

from __future__ import annotations

import re

from toolkit.planning.geometry.model import Vision

_NAME = re.compile(r"(^|\.)(visual|vision_tower|vision_model|vision_encoder|multi_modal_projector)\.")
_MERGED = 4
"""Patches that the merger joins to one token before it projects them (two by two)."""
LARGEST_IMAGE_TOKENS = 16_384
"""Of the families that are planned: 16,777,216 pixels at the most, 32 x 32 of them for each token."""
ENCODER_MARGIN = 0.5
"""Not calibrated: nothing was published of an encoder's peak on SM70. Its attention keeps no scores (SDPA)."""
_PIXELS = 3 * 2 * 16 * 16
"""Numbers of one patch: colours, frames and pixels."""


def is_vision(name: str) -> bool:
    """Whether a tensor belongs to the vision encoder or to the projection behind it."""
    # The plain look comes first: a checkpoint can have 300,000 tensors, and nearly none is of an encoder.
    return ("vis" in name or "multi_modal" in name) and _NAME.search(name) is not None


def vision_weights(vision: Vision) -> int:
    """Number of weights: the layers' attention and feed-forward pair, and the merger; no patch embedding."""
    hidden, merged = vision.hidden_size, _MERGED * vision.hidden_size
    layer = 4 * hidden * hidden + 2 * hidden * vision.intermediate_size
    return vision.layers * layer + merged * merged + merged * vision.out_hidden_size


def image_buffers(
    vision: Vision, tensor_parallel: int, max_num_batched_tokens: int, element_bytes: int
) -> tuple[int, int]:
    """Bytes of the encoder's cache, and of its own activations at their peak.

    The cache holds as many tokens as a step computes, and at least the largest image; the engine encodes that many at
    once (vLLM 0.32, v1/core/encoder_cache_manager.py: compute_mm_encoder_budget). The activations are the pixels, the
    residual stream twice, and the wider of a layer's two halves: queries, keys, values and their rotated copies, or
    the feed-forward's width twice, both divided over ranks.
    """
    tokens = max(max_num_batched_tokens, LARGEST_IMAGE_TOKENS)
    attention, feed_forward = 6 * vision.hidden_size, 2 * vision.intermediate_size
    width = _PIXELS + 2 * vision.hidden_size + max(attention, feed_forward) // tensor_parallel
    return tokens * vision.out_hidden_size * element_bytes, _MERGED * tokens * width * element_bytes
