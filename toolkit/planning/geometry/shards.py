"""One rank's share of a model under tensor parallelism."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.errors import ConfigurationError
from toolkit.planning.geometry.model import LayerKind, ModelGeometry

WIDTH_MULTIPLE = 32
"""Output columns of a quantised projection come in tiles of 32 on SM70 (quad-pair layout)."""
VOCABULARY_MULTIPLE = 64
"""The engine pads the vocabulary to this before it divides it over ranks."""


@dataclass(frozen=True)
class Rank:
    """Heads and vocabulary rows of one rank."""

    tensor_parallel: int
    query_heads: int
    kv_heads: int
    key_heads: int
    """Recurrent layers' key heads; 0 without such layers."""
    value_heads: int
    vocabulary: int


@dataclass(frozen=True)
class Projection:
    """One linear layer as a rank computes it: `rows` outputs by `columns` inputs, in `layers` places."""

    name: str
    rows: int
    columns: int
    layers: int

    @property
    def padded_rows(self) -> int:
        """Physical output width: the logical one rounded up to a whole tile, as 4120 to 4128 and 8240 to 8256."""
        return round_up(self.rows, WIDTH_MULTIPLE)

    @property
    def weights(self) -> int:
        """Number of weights of all places together, without padding."""
        return self.rows * self.columns * self.layers


def rank_of(geometry: ModelGeometry, tensor_parallel: int) -> Rank:
    """Return what one of `tensor_parallel` ranks holds; raises ConfigurationError where heads do not divide."""
    attention, recurrent = geometry.attention, geometry.recurrent
    _check_divides("attention heads", attention.query_heads, tensor_parallel)
    fewer, more = sorted((attention.kv_heads, tensor_parallel))
    if more % fewer:
        raise _uneven("KV heads", attention.kv_heads, tensor_parallel)
    key_heads = value_heads = 0
    if recurrent is not None:
        _check_divides("recurrent key heads", recurrent.key_heads, tensor_parallel)
        _check_divides("recurrent value heads", recurrent.value_heads, tensor_parallel)
        key_heads, value_heads = recurrent.key_heads // tensor_parallel, recurrent.value_heads // tensor_parallel
    return Rank(
        tensor_parallel=tensor_parallel,
        query_heads=attention.query_heads // tensor_parallel,
        kv_heads=max(1, attention.kv_heads // tensor_parallel),
        key_heads=key_heads,
        value_heads=value_heads,
        vocabulary=round_up(geometry.vocab_size, VOCABULARY_MULTIPLE) // tensor_parallel,
    )


def projections(geometry: ModelGeometry, tensor_parallel: int) -> tuple[Projection, ...]:
    """List every kind of linear layer of one rank, experts counted once for each expert."""
    rank = rank_of(geometry, tensor_parallel)
    return (
        *_attention_projections(geometry, rank),
        *_recurrent_projections(geometry, rank),
        *_feed_forward_projections(geometry, tensor_parallel),
        Projection("lm_head", rank.vocabulary, geometry.hidden_size, 1),
    )


def _attention_projections(geometry: ModelGeometry, rank: Rank) -> tuple[Projection, ...]:
    dim, layers = geometry.attention.head_dim, geometry.attention_layers
    gated = 2 if geometry.attention.output_gate else 1
    qkv = (rank.query_heads * gated + 2 * rank.kv_heads) * dim
    return (
        Projection("self_attn.qkv_proj", qkv, geometry.hidden_size, layers),
        Projection("self_attn.o_proj", geometry.hidden_size, rank.query_heads * dim, layers),
    )


def _recurrent_projections(geometry: ModelGeometry, rank: Rank) -> tuple[Projection, ...]:
    recurrent, layers = geometry.recurrent, geometry.count(LayerKind.recurrent)
    if recurrent is None:
        return ()
    keys, values = rank.key_heads * recurrent.key_dim, rank.value_heads * recurrent.value_dim
    # q, k, v and the output gate z, then one b and one a for each value head
    rows = 2 * keys + 2 * values + 2 * rank.value_heads
    return (
        Projection("linear_attn.in_proj", rows, geometry.hidden_size, layers),
        Projection("linear_attn.out_proj", geometry.hidden_size, values, layers),
    )


def _feed_forward_projections(geometry: ModelGeometry, tensor_parallel: int) -> tuple[Projection, ...]:
    hidden, experts = geometry.hidden_size, geometry.experts
    dense_layers = len(geometry.layers) - (experts.layers if experts else 0)
    found: list[Projection] = []
    if dense_layers:
        found += _gated_pair("mlp", geometry.intermediate_size, hidden, dense_layers, tensor_parallel)
    if experts is not None:
        found.append(Projection("mlp.gate", experts.count, hidden, experts.layers))
        places = experts.layers * experts.count
        found += _gated_pair("mlp.experts", experts.intermediate_size, hidden, places, tensor_parallel)
        if experts.shared_intermediate_size:
            width = experts.shared_intermediate_size
            found += _gated_pair("mlp.shared_expert", width, hidden, experts.layers, tensor_parallel)
    return tuple(found)


def _gated_pair(name: str, width: int, hidden: int, layers: int, tensor_parallel: int) -> list[Projection]:
    _check_divides(f"the width of {name}", width, tensor_parallel)
    share = width // tensor_parallel
    return [
        Projection(f"{name}.gate_up_proj", 2 * share, hidden, layers),
        Projection(f"{name}.down_proj", hidden, share, layers),
    ]


def round_up(value: int, multiple: int) -> int:
    """Return the smallest multiple that is not below `value`."""
    return -(-value // multiple) * multiple


def _check_divides(what: str, count: int, tensor_parallel: int) -> None:
    if count % tensor_parallel:
        raise _uneven(what, count, tensor_parallel)


def _uneven(what: str, count: int, tensor_parallel: int) -> ConfigurationError:
    return ConfigurationError(
        f"The model cannot be divided over {tensor_parallel} GPUs: {what} ({count}) do not divide evenly.",
        where="limits.tensor_parallel",
        fix="choose a number of GPUs that divides it; powers of two fit most models",
    )
