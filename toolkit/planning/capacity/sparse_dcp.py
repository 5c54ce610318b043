"""Qwen4Exp under decode context parallelism: two layouts that no engine has by itself.

Only the target layers' main keys and values are sharded; compressed keys, recurrent states, the per-layer embedding's
state and the draft layer are held whole by every rank. Published with the public fork's pull request 702.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.planning.capacity.caches import ceil_div
from toolkit.planning.capacity.pool import Demand, Pool


@dataclass(frozen=True)
class SparseModel:
    """One rank's layers of a Qwen4Exp model."""

    target_layers: int
    """Attention layers of the model itself."""
    draft_layers: int
    """Attention layers of its next-token head, if it drafts."""
    recurrent_layers: int
    embedding_layers: int
    token_bytes: int
    """Main keys and values of one token in one layer."""
    compressed_bytes: int
    """One compressed key."""
    compress_ratio: int
    """Tokens of one compressed key."""
    slots: int
    """States that one request holds in each recurrent layer."""

    @property
    def owners(self) -> int:
        """Attention layers that have pages in every block."""
        return self.target_layers + self.draft_layers

    def compressed_page(self, span: int) -> int:
        """Bytes of the compressed keys of `span` tokens in one layer."""
        return span // self.compress_ratio * self.compressed_bytes


def packed_pool(model: SparseModel, span: int, dcp: int, max_model_len: int) -> Pool:
    """Pages in which `dcp` sharded layers share one physical page.

    A block covers `span` tokens. A rank holds `span / dcp` of them in a target layer, so that `dcp` layers fill one
    page of `span` tokens; the draft layer fills a page alone.
    """
    pages = ceil_div(model.target_layers, dcp) + model.draft_layers
    size = pages * span * model.token_bytes + model.owners * model.compressed_page(span)
    return _pool(model, span, size, pages, max_model_len)


def span_pool(model: SparseModel, local_tokens: int, dcp: int, max_model_len: int) -> Pool:
    """The older pages: one for each layer, of `local_tokens` tokens, so that a block covers `dcp` times as many.

    The draft layer holds the whole span, and the recurrent states still find one page for each layer.
    """
    span = dcp * local_tokens
    main = (model.target_layers * local_tokens + model.draft_layers * span) * model.token_bytes
    size = main + model.owners * model.compressed_page(span)
    return _pool(model, span, size, model.owners, max_model_len)


def _pool(model: SparseModel, span: int, size: int, pages: int, max_model_len: int) -> Pool:
    states = (("recurrent", model.recurrent_layers), ("embedding", model.embedding_layers))
    demands = (
        Demand("attention", 1, ceil_div(max_model_len, span)),
        Demand("ring", 1, 1),
        *(Demand(kind, ceil_div(layers, pages), model.slots) for kind, layers in states if layers),
    )
    return Pool(block_tokens=span, bytes_per_block=size, max_model_len=max_model_len, demands=demands)
