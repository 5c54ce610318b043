"""Weights by the shapes of a model alone, each in the format that the checkpoint keeps it in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from toolkit.planning.geometry.model import LayerKind, ModelGeometry
from toolkit.planning.geometry.quantization import Quantization, Scheme
from toolkit.planning.geometry.shards import Projection, projections, rank_of

_UNQUANTISED = ("lm_head", "mlp.gate")
"""Linear layers that every published quantised checkpoint of these families keeps in 16 bits."""
_MEMBERS = {"qkv_proj": "q_proj", "gate_up_proj": "gate_proj", "in_proj": "in_proj_qkvz"}
"""A projection that the engine joins, and one of its parts as a checkpoint names it."""
_PREFIXES = ("model.layers", "model.language_model.layers", "language_model.model.layers")


def text_bytes(geometry: ModelGeometry, tensor_parallel: int, element_bytes: int) -> int:
    """One rank's bytes of the text model: projections, embedding, norms and convolutions.

    What is quantised takes the format's bits with its scales, everything else `element_bytes`.
    """
    rank = rank_of(geometry, tensor_parallel)
    every = projections(geometry, tensor_parallel)
    narrow = {found.name: found.layers for found in quantised_projections(geometry, every)}
    total = 0.0
    for found in every:
        if found.name == "lm_head" and geometry.tie_word_embeddings:
            continue
        each = found.rows * found.columns
        quantised = narrow.get(found.name, 0)
        total += each * quantised * _bits(geometry.quantization, element_bytes) / 8
        total += each * (found.layers - quantised) * element_bytes
    vectors = (2 * len(geometry.layers) + 1) * geometry.hidden_size + _convolutions(geometry, tensor_parallel)
    return round(total) + (rank.vocabulary * geometry.hidden_size + vectors) * element_bytes


def recurrent_in_sixteen_bits(geometry: ModelGeometry, tensor_parallel: int, element_bytes: int) -> int:
    """Bytes more on one rank if a quantised checkpoint, which does not say so, keeps its recurrent projections wide.

    The published size of Flash-Next's NVFP4 checkpoint is met so, 0.6 GiB above it, and missed by 2.3 GiB otherwise.
    0 where the checkpoint lists what it left out.
    """
    if geometry.quantization.ignored:
        return 0
    quantised = quantised_projections(geometry, projections(geometry, tensor_parallel))
    weights = sum(found.weights for found in quantised if found.name.startswith("linear_attn."))
    return round(weights * (element_bytes - _bits(geometry.quantization, element_bytes) / 8))


def next_token_bytes(geometry: ModelGeometry, tensor_parallel: int, element_bytes: int) -> int:
    """One rank's bytes of the checkpoint's next-token head: a projection of two rows to one, and attention layers.

    It stands unquantised in the published NVFP4 checkpoints (vLLM 0.32, models/qwen3_5_mtp.py); embedding and output
    head are the model's own.
    """
    if not geometry.mtp_layers:
        return 0
    kind = LayerKind.sparse if LayerKind.sparse in geometry.layers else LayerKind.full
    experts = replace(geometry.experts, layers=geometry.mtp_layers) if geometry.experts else None
    head = replace(geometry, layers=(kind,) * geometry.mtp_layers, recurrent=None, experts=experts)
    body = sum(found.weights for found in projections(head, tensor_parallel) if found.name != "lm_head")
    return (body + 2 * geometry.hidden_size**2 // tensor_parallel) * element_bytes


def quantised_projections(geometry: ModelGeometry, every: Iterable[Projection]) -> tuple[Projection, ...]:
    """Those that the checkpoint keeps quantised, with the layers in which it does."""
    if geometry.quantization.scheme is Scheme.none:
        return ()
    found = (replace(each, layers=_quantised_places(each, geometry)) for each in every if each.name not in _UNQUANTISED)
    return tuple(each for each in found if each.layers)


def _quantised_places(projection: Projection, geometry: ModelGeometry) -> int:
    """How many of a projection's places are quantised, by the modules that the checkpoint says it left out."""
    quantization = geometry.quantization
    if not quantization.ignored:
        return projection.layers
    block, _, last = projection.name.rpartition(".")
    member = f"{block}.{_MEMBERS.get(last, last)}"
    numbers = [number for number, kind in enumerate(geometry.layers) if _has(block, kind)]
    left_out = sum(any(quantization.keeps(f"{prefix}.{number}.{member}") for prefix in _PREFIXES) for number in numbers)
    return projection.layers * (len(numbers) - left_out) // len(numbers) if numbers else projection.layers


def _has(block: str, kind: LayerKind) -> bool:
    if block == "linear_attn":
        return kind is LayerKind.recurrent
    return block != "self_attn" or kind is not LayerKind.recurrent


def _bits(quantization: Quantization, element_bytes: int) -> float:
    return element_bytes * 8 if quantization.bits is None else quantization.bits


def _convolutions(geometry: ModelGeometry, tensor_parallel: int) -> int:
    """Elements of the recurrent layers' short convolutions."""
    if geometry.recurrent is None:
        return 0
    rank = rank_of(geometry, tensor_parallel)
    channels = 2 * rank.key_heads * geometry.recurrent.key_dim + rank.value_heads * geometry.recurrent.value_dim
    return geometry.count(LayerKind.recurrent) * channels * geometry.recurrent.conv_kernel
