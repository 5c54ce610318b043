"""Oracle of kernels/cuda/dcp.cu: tokens are dealt out one by one, and counted."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Share:
    """One rank among `dcp`, which take turns of `interleave` consecutive tokens."""

    dcp: int
    rank: int
    interleave: int

    def owns(self, position: int) -> bool:
        """Whether this rank holds the token at a position of its request."""
        return position // self.interleave % self.dcp == self.rank


def local_length(length: int, share: Share) -> int:
    """How many of the first `length` tokens of a request a rank holds."""
    return sum(share.owns(position) for position in range(length))


def slot(position: int, blocks: list[int], block_size: int, share: Share) -> int:
    """The cache slot of the token at a position; -1 when another rank owns it, or the table has no block for it."""
    if position < 0 or not share.owns(position):
        return -1
    column, offset = divmod(local_length(position, share), block_size)  # it follows the owned ones before it
    if column >= len(blocks) or blocks[column] < 0:
        return -1
    return blocks[column] * block_size + offset
