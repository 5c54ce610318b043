"""Buffers beside weights and cache, where a formula is known."""

from __future__ import annotations

from toolkit.planning.geometry.model import ModelGeometry
from toolkit.planning.geometry.shards import Rank


def prefill_bridge(geometry: ModelGeometry, rank: Rank, max_model_len: int) -> int:
    """Bytes in which an FP8 cache's keys and values are laid out in FP16 for the prefill kernel.

    Keys and values of the longest request at this rank's heads: 512 MiB at 262,144 tokens, two heads of 256.
    """
    return 2 * max_model_len * rank.kv_heads * geometry.attention.head_dim * 2


def logits(geometry: ModelGeometry, max_num_seqs: int, draft_tokens: int) -> int:
    """Bytes of FP32 logits over the whole vocabulary, for every row that one step samples or verifies."""
    return max_num_seqs * (1 + draft_tokens) * geometry.vocab_size * 4
