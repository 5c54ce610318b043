"""Weights of one rank: from the checkpoint's tensors, else from its declared size, else from its shapes and format."""

from __future__ import annotations

import math
from collections.abc import Iterable

from toolkit.checkpoint.facts import CheckpointFacts, TensorFacts
from toolkit.planning.budget import Term
from toolkit.planning.geometry.model import ModelGeometry
from toolkit.planning.geometry.quantization import Scheme
from toolkit.planning.geometry.shards import Projection, projections, rank_of
from toolkit.planning.memory.embedding import is_table, table_bytes
from toolkit.planning.memory.vision import is_vision, vision_weights

_UNQUANTISED = ("lm_head", "mlp.gate")
"""Linear layers that every published quantised checkpoint of these families keeps in 16 bits."""
_FROM_HEADERS = "the checkpoint's tensor headers, matrices divided over ranks"
_DECLARED_MARGIN = 0.05
"""Calibrated on Flash-Next: 25.414 GiB after start with a 4 GiB cache, where the terms come to 24.8."""
_SHAPES_MARGIN = 0.5
"""Calibrated on the 27B with DFlash2: 11.08 GiB loaded, where the terms come to 8.8."""


def weights_term(
    geometry: ModelGeometry, facts: CheckpointFacts | None, tensor_parallel: int, element_bytes: int
) -> Term:
    """Estimate the weights that one rank loads.

    element_bytes: bytes of an unquantised weight in the engine's element type.
    The n-gram embedding's table and the vision encoder are terms of their own.
    """
    if facts is not None and facts.tensors:
        return Term("weights", rank_bytes(_text(facts), tensor_parallel), _FROM_HEADERS, 0.05)
    if facts is not None and facts.weight_bytes is not None:
        size = (facts.weight_bytes - table_bytes(geometry)) // tensor_parallel
        return Term("weights", size, "the checkpoint's declared size, divided over ranks", _DECLARED_MARGIN)
    size = _from_shapes(geometry, tensor_parallel, element_bytes)
    return Term("weights", size, "shapes and weight format; no vision encoder, no next-token head", _SHAPES_MARGIN)


def vision_term(
    geometry: ModelGeometry, facts: CheckpointFacts | None, tensor_parallel: int, element_bytes: int
) -> Term | None:
    """Estimate the vision encoder's weights on one rank; None where there is none, or the declared size has it."""
    if facts is not None and facts.tensors:
        found = [tensor for tensor in facts.tensors.values() if is_vision(tensor.name)]
        return Term("vision encoder", rank_bytes(found, tensor_parallel), _FROM_HEADERS, 0.05) if found else None
    if geometry.vision is None or (facts is not None and facts.weight_bytes is not None):
        return None
    size = vision_weights(geometry.vision) * element_bytes // tensor_parallel
    return Term("vision encoder", size, "its layers' shapes, divided over ranks; no patch embedding", _SHAPES_MARGIN)


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
    return tuple(p for p in projections(geometry, tensor_parallel) if p.name not in _UNQUANTISED)


def _text(facts: CheckpointFacts) -> Iterable[TensorFacts]:
    return (tensor for tensor in facts.tensors.values() if not is_table(tensor.name) and not is_vision(tensor.name))


def _share(tensor: TensorFacts, tensor_parallel: int) -> int:
    divided = len(tensor.shape) >= 2 and max(tensor.shape) >= tensor_parallel
    return math.ceil(tensor.num_bytes / tensor_parallel) if divided else tensor.num_bytes


def _from_shapes(geometry: ModelGeometry, tensor_parallel: int, element_bytes: int) -> int:
    quantised = geometry.quantization.bits
    element_bits = element_bytes * 8
    bits = element_bits if geometry.quantization.scheme is Scheme.none or quantised is None else quantised
    total = 0.0
    for projection in projections(geometry, tensor_parallel):
        if projection.name == "lm_head" and geometry.tie_word_embeddings:
            continue
        width = element_bits if projection.name in _UNQUANTISED else bits
        total += projection.weights * width / 8
    embedding = rank_of(geometry, tensor_parallel).vocabulary * geometry.hidden_size * element_bytes
    norms = (2 * len(geometry.layers) + 1) * geometry.hidden_size * element_bytes
    return round(total) + embedding + norms
