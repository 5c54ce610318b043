"""Weights of one rank: from the checkpoint's tensors, else from its declared size, else from its shapes and format."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from toolkit.checkpoint.facts import CheckpointFacts, TensorFacts
from toolkit.planning.budget import Term
from toolkit.planning.geometry.model import ModelGeometry
from toolkit.planning.geometry.quantization import Scheme
from toolkit.planning.geometry.shards import Projection, projections
from toolkit.planning.memory.embedding import is_table, table_bytes
from toolkit.planning.memory.shapes import (
    next_token_bytes,
    quantised_projections,
    recurrent_in_sixteen_bits,
    text_bytes,
)
from toolkit.planning.memory.vision import is_vision, vision_weights

_FROM_HEADERS = "the checkpoint's tensor headers, matrices divided over ranks"
_FROM_SHAPES = "shapes, each in its weight format"
_DECLARED_MARGIN = 0.05
"""Calibrated on Flash-Next: 25.414 GiB after start with a 4 GiB cache, where the terms come to 24.9."""
_SHAPES_MARGIN = 0.02
"""SmolLM2's shapes give its file to the byte; other families have a few vectors more."""
_VISION_MARGIN = 0.1
"""No patch and position embeddings, norms and biases."""


@dataclass(frozen=True)
class Loaded:
    """Which parts of a checkpoint the engine loads, over how many ranks, and in which element type."""

    tensor_parallel: int
    element_bytes: int
    """Bytes of an unquantised weight in the engine's element type."""
    vision: bool = True
    """Also the vision encoder; not where the engine is told to take text alone."""
    next_token: bool = True
    """Also the checkpoint's own next-token head; only MTP drafts load it."""


def weights_term(geometry: ModelGeometry, facts: CheckpointFacts | None, loaded: Loaded) -> Term:
    """Estimate the weights of the text model that one rank loads.

    The n-gram embedding's table and the vision encoder are terms of their own.
    """
    ranks = loaded.tensor_parallel
    if facts is not None and facts.tensors:
        return Term("weights", rank_bytes(_text(facts, loaded), ranks), _FROM_HEADERS, 0.05)
    if facts is not None and facts.weight_bytes is not None:
        size = facts.weight_bytes - table_bytes(geometry)
        if geometry.vision is not None and not loaded.vision:
            size -= vision_weights(geometry.vision) * loaded.element_bytes
        return Term("weights", size // ranks, "the checkpoint's declared size, divided over ranks", _DECLARED_MARGIN)
    size = text_bytes(geometry, ranks, loaded.element_bytes)
    if loaded.next_token:
        size += next_token_bytes(geometry, ranks, loaded.element_bytes)
    wider = recurrent_in_sixteen_bits(geometry, ranks, loaded.element_bytes)
    source = "shapes, each in its weight format; margin if recurrent layers are in 16 bits" if wider else _FROM_SHAPES
    return Term("weights", size, source, round(_SHAPES_MARGIN + wider / size, 3))


def vision_term(geometry: ModelGeometry, facts: CheckpointFacts | None, loaded: Loaded) -> Term | None:
    """Estimate the vision encoder's weights on one rank; None where none is loaded, or the declared size has it."""
    ranks = loaded.tensor_parallel
    if not loaded.vision:
        return None
    if facts is not None and facts.tensors:
        found = [tensor for tensor in facts.tensors.values() if is_vision(tensor.name)]
        return Term("vision encoder", rank_bytes(found, ranks), _FROM_HEADERS, 0.05) if found else None
    if geometry.vision is None or (facts is not None and facts.weight_bytes is not None):
        return None
    size = vision_weights(geometry.vision) * loaded.element_bytes // ranks
    return Term("vision encoder", size, "its layers' shapes in 16 bits, divided over ranks", _VISION_MARGIN)


def rank_bytes(tensors: Iterable[TensorFacts], tensor_parallel: int) -> int:
    """Return one rank's bytes of some tensors: matrices are divided, vectors and scalars are not."""
    return sum(_share(tensor, tensor_parallel) for tensor in tensors)


def packed_copies(geometry: ModelGeometry, tensor_parallel: int) -> tuple[int, int]:
    """Return the bytes of codes and scales that the NVFP4 projection kernel keeps again, in its own order.

    Codes of 4 bits and one FP8 scale for 16 of them, at padded output widths: for the 27B on four ranks 2.835693 GiB
    of codes, the figure that the public fork published, and 0.354 GiB of scales. Experts have no such copy.
    """
    if geometry.experts is not None:
        return 0, 0
    weights = sum(p.padded_rows * p.columns * p.layers for p in _in_nvfp4(geometry, tensor_parallel))
    return weights // 2, weights // 16


def widened_scales(geometry: ModelGeometry, tensor_parallel: int) -> int:
    """Bytes by which NVFP4 group scales grow when the fallback kernel merges the tensor's scale into them, as FP16."""
    return sum(p.weights for p in _in_nvfp4(geometry, tensor_parallel)) // 16


def _in_nvfp4(geometry: ModelGeometry, tensor_parallel: int) -> tuple[Projection, ...]:
    if geometry.quantization.scheme is not Scheme.nvfp4:
        return ()
    return quantised_projections(geometry, projections(geometry, tensor_parallel))


def _text(facts: CheckpointFacts, loaded: Loaded) -> Iterable[TensorFacts]:
    for tensor in facts.tensors.values():
        if is_table(tensor.name) or is_vision(tensor.name):
            continue
        if loaded.next_token or not _is_next_token(tensor.name):
            yield tensor


def _is_next_token(name: str) -> bool:
    """Whether a tensor is of the checkpoint's next-token head, which vLLM's model passes over."""
    return name.startswith("mtp.")


def _share(tensor: TensorFacts, tensor_parallel: int) -> int:
    divided = len(tensor.shape) >= 2 and max(tensor.shape) >= tensor_parallel
    return math.ceil(tensor.num_bytes / tensor_parallel) if divided else tensor.num_bytes
