"""The pool of blocks that all layers share, and what fits into it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from toolkit.planning.capacity.caches import Load
from toolkit.planning.capacity.grouping import Group
from toolkit.planning.plan import Capacity


@dataclass(frozen=True)
class Demand:
    """Block tables of one kind, and what a request of the longest length takes of each."""

    kind: str
    tables: int
    blocks: int
    """Blocks that one request needs of each table."""


@dataclass(frozen=True)
class Pool:
    """One rank's blocks: their size, and how many one request of max_model_len tokens needs."""

    block_tokens: int
    """Tokens of one block of the main attention layers, over all ranks that share it."""
    bytes_per_block: int
    max_model_len: int
    demands: tuple[Demand, ...]

    @property
    def blocks_per_request(self) -> int:
        """Blocks of one request of max_model_len tokens, over all tables."""
        return sum(demand.tables * demand.blocks for demand in self.demands)

    @property
    def smallest_memory(self) -> int:
        """Bytes below which the engine refuses to start: one request, and the null block that it holds back."""
        return (self.blocks_per_request + 1) * self.bytes_per_block

    def concurrency(self, blocks: int) -> float:
        """Requests of max_model_len tokens that fit at once; a float division, as the engine's own."""
        return blocks / self.blocks_per_request

    def tokens(self, blocks: int) -> int:
        """Tokens that fit, as the engine prints them."""
        return int(self.concurrency(blocks) * self.max_model_len)

    def capacity(self, memory_bytes: int | None) -> Capacity:
        """What `memory_bytes` hold; without the number, only the sizes."""
        blocks = None if memory_bytes is None else memory_bytes // self.bytes_per_block
        return Capacity(
            block_tokens=self.block_tokens,
            bytes_per_block=self.bytes_per_block,
            blocks=blocks,
            blocks_per_request=self.blocks_per_request,
            tokens=None if blocks is None else self.tokens(blocks),
            concurrency=None if blocks is None else self.concurrency(blocks),
        )

    def blocks_for_tokens(self, tokens: int) -> int:
        """Return the fewest blocks that the engine reports at least `tokens` tokens for."""
        return self._fewest(lambda blocks: self.tokens(blocks) >= tokens, tokens / self.max_model_len)

    def blocks_for_concurrency(self, requests: float) -> int:
        """Return the fewest blocks in which `requests` requests of max_model_len tokens fit at once."""
        return self._fewest(lambda blocks: self.concurrency(blocks) >= requests, requests)

    def _fewest(self, enough: Callable[[int], bool], requests: float) -> int:
        """Return the fewest blocks that are enough, near those of `requests`: the float division rounds either way."""
        blocks = math.ceil(requests * self.blocks_per_request)
        while not enough(blocks):
            blocks += 1
        while blocks > 0 and enough(blocks - 1):
            blocks -= 1
        return blocks


def pool_of(groups: Sequence[Group], load: Load, block_tokens: int) -> Pool:
    """Make the pool that these groups share: its block is as large as the largest group."""
    return Pool(
        block_tokens=block_tokens,
        bytes_per_block=max(group.bytes_per_block for group in groups),
        max_model_len=load.max_model_len,
        demands=tuple(
            Demand(kind=type(next(iter(group.layers.values()))).__name__, tables=1, blocks=group.blocks(load))
            for group in groups
        ),
    )
