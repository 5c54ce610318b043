"""The size of a block in tokens, and the states that it must be able to hold."""

from __future__ import annotations

from toolkit.planning.capacity.caches import ELEMENT_BYTES, ceil_div
from toolkit.planning.geometry.model import PerLayerEmbedding, Recurrent
from toolkit.planning.geometry.shards import Rank, round_up


def recurrent_state_bytes(recurrent: Recurrent, rank: Rank, draft_tokens: int, dtype: str) -> int:
    """Bytes of one gated delta net layer's state on one rank.

    The recurrent state (value heads x value dim x key dim) in its own element type, and the convolution's window of
    kernel - 1 columns, with one more column for each draft token, in the engine's.
    """
    state = rank.value_heads * recurrent.value_dim * recurrent.key_dim
    channels = 2 * rank.key_heads * recurrent.key_dim + rank.value_heads * recurrent.value_dim
    window = (recurrent.conv_kernel - 1 + draft_tokens) * channels
    return state * ELEMENT_BYTES[recurrent.state_dtype or dtype] + window * ELEMENT_BYTES[dtype]


def embedding_state_bytes(
    embedding: PerLayerEmbedding, hidden_size: int, streams: int, draft_tokens: int, dtype: str
) -> int:
    """Bytes of one per-layer embedding's convolution window; every rank holds all of it.

    The convolution is dilated by the n-gram size, over all residual streams.
    """
    window = (embedding.conv_kernel - 1) * embedding.ngram_size + draft_tokens
    return window * hidden_size * streams * ELEMENT_BYTES[dtype]


def hybrid_block_tokens(state_bytes: int, token_bytes: int, kernel_block: int, requested: int) -> int:
    """Tokens of a block whose page holds the largest state.

    state_bytes:  bytes of that state; token_bytes: bytes of one token of one attention layer, both on one rank.
    kernel_block: tokens that the attention kernels take at a time; the block is a multiple.
    requested:    the user's block size or the engine's default; the block is a multiple of this too, if the kernels'
                  is smaller (vLLM 0.32, platforms/interface.py: _align_hybrid_block_size).
    """
    unit = max(kernel_block, requested)
    tokens = unit * ceil_div(state_bytes, unit * token_bytes)
    return round_up(tokens, kernel_block)
