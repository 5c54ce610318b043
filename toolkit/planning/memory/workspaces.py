"""Buffers beside weights and cache, where a formula is known."""

from __future__ import annotations

from toolkit.planning.geometry.model import LayerKind, ModelGeometry
from toolkit.planning.geometry.shards import Projection, Rank, projections

SCORES_BYTES = 512 * 2**20
"""Scores of an indexer's prefill, always the most that one step may need (VLLM_SPARSE_INDEXER_MAX_LOGITS_MB)."""
STATE_CHUNK = 64
"""Tokens between the recurrent states that a gated delta net's prefill keeps (its kernels' chunk)."""


def logits(geometry: ModelGeometry, max_num_seqs: int, draft_tokens: int) -> int:
    """Bytes of FP32 logits over the whole vocabulary, for every row that one step samples or verifies."""
    return max_num_seqs * (1 + draft_tokens) * geometry.vocab_size * 4


def selections(geometry: ModelGeometry, tokens: int, mtp: bool) -> int:
    """Bytes in which each sparse layer keeps the tokens that every token of a step attends, and their number.

    int32, at most the indexer's budget and the last keys that are not compressed yet (vLLM 0.32, models/qwen4_exp).
    """
    if geometry.indexer is None:
        return 0
    layers = geometry.count(LayerKind.sparse) + (geometry.mtp_layers if mtp else 0)
    return layers * tokens * (geometry.indexer.budget + geometry.indexer.compress_ratio) * 4


def activations(geometry: ModelGeometry, rank: Rank, tokens: int, element_bytes: int, *, decode: bool = False) -> int:
    """Bytes that one step of `tokens` tokens holds at its peak, at least.

    The residual streams twice, and of all layers the one whose inputs and outputs are the widest: the experts' rows
    for every token and active expert. A prefill has an indexer's scores in their place where these are larger, and
    recurrent layers add the FP32 states between its chunks.
    """
    streams = geometry.hyper_connections.streams if geometry.hyper_connections else 1
    residual = 2 * tokens * geometry.hidden_size * streams * element_bytes
    widest = max(_width(geometry, found) for found in projections(geometry, rank.tensor_parallel))
    width = tokens * widest * element_bytes
    if decode:
        return residual + width
    scores = SCORES_BYTES if geometry.indexer is not None else 0
    states = 0
    if geometry.recurrent is not None:
        state = rank.value_heads * geometry.recurrent.key_dim * geometry.recurrent.value_dim * 4
        states = -(-tokens // STATE_CHUNK) * state
    return residual + max(width, scores) + states


def _width(geometry: ModelGeometry, projection: Projection) -> int:
    """Elements that one token takes around a projection; none at the output head, which sees few rows."""
    if projection.name == "lm_head":
        return 0
    routed = geometry.experts.active if geometry.experts and ".experts." in projection.name else 1
    return routed * (projection.rows + projection.columns)
