"""What one layer keeps: pages of a fixed size, and how many of them one request needs.

These are vLLM 0.32's own kinds (v1/kv_cache_interface.py), for the models that the toolkit plans. Two layers share a
block table only if their caches are equal, so every field that the engine compares is here.
"""

from __future__ import annotations

from dataclasses import dataclass

ELEMENT_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "fp8_e4m3": 1, "fp8_e5m2": 1}


def ceil_div(dividend: int, divisor: int) -> int:
    """Divide whole numbers, rounding up."""
    return -(-dividend // divisor)


@dataclass(frozen=True)
class Load:
    """What the engine must be able to hold of one request."""

    max_model_len: int
    """Tokens of the longest request."""
    in_flight_tokens: int
    """Tokens that are scheduled and not settled yet: max_num_batched_tokens for each batch in flight."""
    dcp: int = 1
    """Ranks that share a sharded layer's keys and values."""


@dataclass(frozen=True)
class AttentionCache:
    """Keys and values of `block_tokens` tokens in one page, at `kv_heads` heads of one rank.

    key_dim, value_dim: elements of one head's key and value; dtype: a key of ELEMENT_BYTES.
    """

    block_tokens: int
    kv_heads: int
    key_dim: int
    value_dim: int
    dtype: str
    sharded: bool = True
    """Decode context parallelism divides the tokens over ranks; a replicated cache holds them all."""
    padded_page: int | None = None
    """Bytes of the page where it is padded to the size of other layers' pages."""

    @property
    def state_bytes(self) -> int:
        """Bytes of the page's contents, without padding."""
        return self.block_tokens * self.token_bytes

    @property
    def token_bytes(self) -> int:
        """Bytes of one token."""
        return self.kv_heads * (self.key_dim + self.value_dim) * ELEMENT_BYTES[self.dtype]

    @property
    def page_bytes(self) -> int:
        """Bytes of one page."""
        return self.padded_page if self.padded_page is not None else self.state_bytes


@dataclass(frozen=True)
class FullCache(AttentionCache):
    """Every token is kept."""

    def blocks(self, load: Load) -> int:
        """Count a request's blocks: its tokens on this rank, rounded up to whole blocks."""
        tokens = ceil_div(load.max_model_len, load.dcp) if self.sharded else load.max_model_len
        return ceil_div(tokens, self.block_tokens)


@dataclass(frozen=True)
class CompressedCache(FullCache):
    """One key for every `tokens_per_state` tokens (QSA's compressed keys); there are no values."""

    tokens_per_state: int = 1

    @property
    def state_bytes(self) -> int:
        """Bytes of the page's contents, without padding."""
        return self.block_tokens // self.tokens_per_state * self.token_bytes


@dataclass(frozen=True)
class SlidingCache(AttentionCache):
    """The last `window` tokens are kept, and those in flight."""

    window: int = 1
    extra_tokens: int = 0
    """Tokens kept below the window: drafters with several modules read them again."""

    def blocks(self, load: Load) -> int:
        """Count a request's blocks; one more than the tokens fill, as a window may start inside a block."""
        held = self.window - 1 + self.extra_tokens + load.in_flight_tokens
        return ceil_div(min(held, load.max_model_len), self.block_tokens) + 1


@dataclass(frozen=True)
class RingCache(AttentionCache):
    """One page for each request, written round and round (QSA's keys that are not compressed yet)."""

    def blocks(self, load: Load) -> int:  # noqa: ARG002 - the same for any load
        """Count a request's blocks: one, for its whole life."""
        return 1


@dataclass(frozen=True)
class StateCache:
    """A state of fixed size for each request, however long it is (gated delta net, short convolution)."""

    block_tokens: int
    """Tokens between two states that prefix caching may keep; max_model_len without it."""
    state_bytes: int
    slots: int
    """States that one request holds at once."""
    replicated: bool = False
    """Every rank holds the whole state, rather than its heads' share."""
    padded_page: int | None = None
    """Bytes of the page where it is padded to the size of other layers' pages."""
    sharded: bool = False

    @property
    def page_bytes(self) -> int:
        """Bytes of one page."""
        return self.padded_page if self.padded_page is not None else self.state_bytes

    def blocks(self, load: Load) -> int:  # noqa: ARG002 - the same for any load
        """Count a request's blocks."""
        return self.slots


Cache = FullCache | CompressedCache | SlidingCache | RingCache | StateCache


def state_slots(prefix_caching: bool, draft_tokens: int) -> int:
    """States that a request of a recurrent layer holds.

    One runs, one is kept at the last block border where prefix caching is on (mode `align`), and one more for each
    draft token, because any of them may be the last that is accepted.
    """
    return (2 if prefix_caching else 1) + draft_tokens


def same_type(first: Cache, other: Cache) -> bool:
    """Whether two layers always need the same number of blocks, so that they can share a table at unequal pages."""
    if first.block_tokens != other.block_tokens or first.sharded != other.sharded:
        return False
    if isinstance(first, FullCache):
        return isinstance(other, FullCache)
    if isinstance(first, SlidingCache):
        return isinstance(other, SlidingCache) and first.window == other.window
    if isinstance(first, StateCache):
        return isinstance(other, StateCache) and (first.slots, first.page_bytes, first.replicated) == (
            other.slots,
            other.page_bytes,
            other.replicated,
        )
    return isinstance(other, RingCache)
