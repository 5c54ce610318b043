"""Buffers beside weights and cache, where a formula is known."""

from __future__ import annotations

from toolkit.planning.geometry.model import ModelGeometry
from toolkit.planning.geometry.shards import Projection, Rank, projections

STATE_CHUNK = 64
"""Tokens between the recurrent states that a gated delta net's prefill keeps (its kernels' chunk)."""


def prefill_bridge(geometry: ModelGeometry, rank: Rank, max_model_len: int) -> int:
    """Bytes in which an FP8 cache's keys and values are laid out in FP16 for the prefill kernel.

    Keys and values of the longest request at this rank's heads: 512 MiB at 262,144 tokens, two heads of 256.
    """
    return 2 * max_model_len * rank.kv_heads * geometry.attention.head_dim * 2


def logits(geometry: ModelGeometry, max_num_seqs: int, draft_tokens: int) -> int:
    """Bytes of FP32 logits over the whole vocabulary, for every row that one step samples or verifies."""
    return max_num_seqs * (1 + draft_tokens) * geometry.vocab_size * 4


def activations(geometry: ModelGeometry, rank: Rank, tokens: int, element_bytes: int) -> int:
    """Bytes that one step of `tokens` tokens holds at its peak, at least.

    The residual streams twice, and of all layers the one whose inputs and outputs are the widest: the experts' rows
    for every token and active expert. Recurrent layers add the FP32 states between the chunks of a prefill.
    """
    streams = geometry.hyper_connections.streams if geometry.hyper_connections else 1
    residual = 2 * tokens * geometry.hidden_size * streams * element_bytes
    widest = max(_width(geometry, found) for found in projections(geometry, rank.tensor_parallel))
    states = 0
    if geometry.recurrent is not None:
        state = rank.value_heads * geometry.recurrent.key_dim * geometry.recurrent.value_dim * 4
        states = -(-tokens // STATE_CHUNK) * state
    return residual + tokens * widest * element_bytes + states


def _width(geometry: ModelGeometry, projection: Projection) -> int:
    """Elements that one token takes around a projection; none at the output head, which sees few rows."""
    if projection.name == "lm_head":
        return 0
    routed = geometry.experts.active if geometry.experts and ".experts." in projection.name else 1
    return routed * (projection.rows + projection.columns)
