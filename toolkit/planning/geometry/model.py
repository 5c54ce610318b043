"""What a model is made of, as far as planning needs it: plain frozen data, no behaviour beyond counting."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from toolkit.planning.geometry.quantization import Quantization


class LayerKind(Enum):
    """How one decoder layer mixes tokens, and therefore what it keeps for each request."""

    full = "full_attention"
    """Keys and values of every token."""
    sliding = "sliding_attention"
    """Keys and values of the last `window` tokens."""
    recurrent = "linear_attention"
    """A state of fixed size (gated delta net)."""
    sparse = "indexed_attention"
    """Keys and values of every token, and compressed keys by which few of them are chosen (QSA)."""
    unknown = "unknown"


@dataclass(frozen=True)
class Attention:
    """Softmax attention, whole model (not one rank)."""

    query_heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    """Tokens that a sliding layer sees, itself included; None where no layer slides."""
    output_gate: bool = False
    """The query projection also makes a gate of the same width."""


@dataclass(frozen=True)
class Recurrent:
    """Gated delta net layers, whole model."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv_kernel: int
    """Tokens that the short convolution sees."""
    state_dtype: str | None
    """Element type of the recurrent state; None follows the engine's own."""


@dataclass(frozen=True)
class Experts:
    """Mixture-of-experts feed-forward layers."""

    count: int
    active: int
    """Routed experts that one token takes."""
    intermediate_size: int
    """Width of one routed expert."""
    shared_intermediate_size: int
    """Width of the expert that every token takes; 0 for none."""
    layers: int
    """Decoder layers that have experts; the others are dense."""


@dataclass(frozen=True)
class Indexer:
    """QSA's selector: one compressed key for each `compress_ratio` tokens chooses `budget` of them."""

    query_heads: int
    key_heads: int
    head_dim: int
    budget: int
    compress_ratio: int


@dataclass(frozen=True)
class HyperConnections:
    """Several residual streams, mixed by low-rank gates."""

    streams: int
    rank: int


@dataclass(frozen=True)
class PerLayerEmbedding:
    """An embedding looked up by hashed n-grams (PLE), added on a few layers."""

    layers: int
    embed_dim: int
    ngram_size: int
    heads_per_ngram: int
    vocabulary_base: int
    """Lower bound of one head's rows; each head has a prime number of them just above it."""
    vocabulary_divisor: int
    """The rows of a table are padded to a multiple of this."""
    conv_kernel: int

    @property
    def heads(self) -> int:
        """Hash heads of one table: n-grams of 2 to `ngram_size` tokens."""
        return (self.ngram_size - 1) * self.heads_per_ngram

    @property
    def row_elements(self) -> int:
        """Elements of one table row."""
        return self.embed_dim // self.heads


@dataclass(frozen=True)
class Vision:
    """A vision encoder."""

    layers: int
    hidden_size: int
    intermediate_size: int
    heads: int
    out_hidden_size: int


@dataclass(frozen=True)
class ModelGeometry:
    """A checkpoint's shapes, whole model; `shards` divides them over ranks.

    unknown names what the configuration says and this reader does not understand; nothing is guessed for it.
    """

    architecture: str
    hidden_size: int
    intermediate_size: int
    """Width of a dense feed-forward layer; 0 where every layer has experts."""
    vocab_size: int
    max_position_embeddings: int | None
    tie_word_embeddings: bool
    layers: tuple[LayerKind, ...]
    attention: Attention
    quantization: Quantization
    recurrent: Recurrent | None = None
    experts: Experts | None = None
    indexer: Indexer | None = None
    hyper_connections: HyperConnections | None = None
    per_layer_embedding: PerLayerEmbedding | None = None
    mtp_layers: int = 0
    """Layers of the checkpoint's own next-token head."""
    vision: Vision | None = None
    unknown: tuple[str, ...] = ()
    unknown_cache: tuple[str, ...] = ()
    """The part of `unknown` that decides what a layer keeps for a request, so that no capacity can be given."""

    def count(self, *kinds: LayerKind) -> int:
        """Count the decoder layers of these kinds."""
        return sum(1 for kind in self.layers if kind in kinds)

    @property
    def attention_layers(self) -> int:
        """Decoder layers that keep keys and values."""
        return self.count(LayerKind.full, LayerKind.sliding, LayerKind.sparse)
