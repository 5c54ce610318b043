"""vocab_parallel_embedding and shuffle_rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.checks.compare import generator, misaligned, same_bits
from kernels.reference import gather_rows as oracle

TYPES = {"f16": torch.float16, "f32": torch.float32, "bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn}


@dataclass(frozen=True)
class Shard:
    """One rank's part of a vocabulary: ranges of ids, and the padding between their rows."""

    org_start: int
    org_end: int
    padding: int
    added_start: int
    added_end: int

    @property
    def rows(self) -> int:
        """Rows of the weight, two of padding at its end included."""
        return self.org_end - self.org_start + self.padding + self.added_end - self.added_start + 2

    @property
    def ranges(self) -> tuple[tuple[int, int, int], ...]:
        """(first id, end, first row) of both ranges."""
        added_row = self.org_end - self.org_start + self.padding
        return (self.org_start, self.org_end, 0), (self.added_start, self.added_end, added_row)


WIDTHS = (1, 33, 34, 36, 2048, 2056)
"""Rows of odd bytes, of 2, 4, 8 and 16, by type; the longest ones are a little more than their threads take at once."""

# the first and a middle rank of a vocabulary with added words, a rank without any, a rank that holds nothing
SHARDS = (Shard(0, 50, 14, 200, 208), Shard(50, 100, 0, 208, 216), Shard(100, 164, 0, 200, 200), Shard(9, 9, 0, 9, 9))


def _bytes(shape: tuple[int, int], dtype: torch.dtype, g: torch.Generator) -> Tensor:
    """Rows of random bytes, NaN and all, as numbers of a type."""
    size = torch.empty((), dtype=dtype).element_size()
    return torch.randint(0, 256, (shape[0], shape[1] * size), generator=g, device=g.device, dtype=torch.uint8).view(
        dtype
    )


def embedding(device: str, name: str, shard: Shard, width: int, *, shift: int, seed: int) -> None:
    """Ids of all ranks and beyond; a weight whose rows are further apart than they are long."""
    g = generator(device, seed)
    dtype = TYPES[name]
    weight = misaligned(_bytes((shard.rows, width + 16), dtype, g), shift)[:, :width]
    ids = torch.randint(-2, 220, (173,), generator=g, device=g.device, dtype=torch.int64 if shift else torch.int32)
    result = misaligned(_bytes((173, width), dtype, g), shift)
    numbers = shard.org_start, shard.org_end, shard.padding, shard.added_start, shard.added_end
    torch.ops.volta.vocab_parallel_embedding(result, ids, weight, *numbers)
    expected = oracle.gather_rows(weight, ids, shard.ranges)
    same_bits(result.view(torch.uint8), expected.view(torch.uint8), f"embedding {name} {shard} {width}")


def missing_rows(device: str) -> None:
    """Ids that a range has but the weight has not give zeros."""
    weight = torch.ones(4, 8, device=device)
    result = torch.full((3, 8), 7.0, device=device)
    ids = torch.tensor([3, 4, 2**40], device=device)
    torch.ops.volta.vocab_parallel_embedding(result, ids, weight, 0, 2**50, 0, 0, 0)
    same_bits(result[:, 0], torch.tensor([1.0, 0.0, 0.0], device=device), "rows that do not exist")


def one_row(device: str, name: str, *, seed: int) -> None:
    """One row, of a table and of a result whose rows would lie at odd distances: that distance has no say."""
    g = generator(device, seed)
    table, result = (_bytes((1, 67), TYPES[name], g)[:, :64] for _ in range(2))
    ids = torch.zeros(1, dtype=torch.int32, device=device)
    torch.ops.volta.shuffle_rows(table, ids, result)
    same_bits(result.view(torch.uint8), table.view(torch.uint8), f"one row of {name}")


def shuffle(device: str, name: str, width: int, *, shift: int, seed: int) -> None:
    """Rows repeated and left out; indices that do not exist."""
    g = generator(device, seed)
    table = misaligned(_bytes((40, width), TYPES[name], g), shift)
    source = torch.randint(-3, 43, (301,), generator=g, device=g.device, dtype=torch.int32)
    result = misaligned(_bytes((301, width), TYPES[name], g), shift)
    torch.ops.volta.shuffle_rows(table, source, result)
    expected = oracle.gather_rows(table, source, ((0, 40, 0),))
    same_bits(result.view(torch.uint8), expected.view(torch.uint8), f"shuffle_rows {name} {width}")
