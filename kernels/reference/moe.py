"""Oracle of kernels/cuda/moe_align.cu and kernels/cuda/moe_sum.cu."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Aligned:
    """Entries by expert in padded blocks, each block's expert, and the places of all blocks."""

    sorted: list[int]
    block_experts: list[int]
    total: int


def lay_out(lists: Sequence[Sequence[int]], block: int, room: tuple[int, int], missing: int) -> Aligned:
    """Lists one after the other, padded to whole blocks and then to `room` (places, blocks)."""
    places: list[int] = []
    experts: list[int] = []
    for expert, entries in enumerate(lists):
        blocks = -(-len(entries) // block)
        places += [*entries, *[missing] * (blocks * block - len(entries))]
        experts += [expert] * blocks
    total = len(places)
    places += [missing] * (room[0] - total)
    experts += [-1] * (room[1] - len(experts))
    return Aligned(places[: room[0]], experts[: room[1]], total)


def lists_of(ids: Tensor, experts: int, expert_map: Tensor | None, kept: Tensor | None = None) -> list[list[int]]:
    """Entries of each expert, in their order, by the definition; `kept` says which entries count at all."""
    lists: list[list[int]] = [[] for _ in range(experts)]
    local = range(experts) if expert_map is None else expert_map.tolist()
    counts = [True] * ids.numel() if kept is None else kept.tolist()
    for entry, given in enumerate(ids.flatten().tolist()):
        if counts[entry] and 0 <= given < experts and 0 <= local[given] < experts:
            lists[local[given]].append(entry)
    return lists


def moe_sum(x: Tensor, ids: Tensor | None, expert_map: Tensor | None) -> Tensor:
    """Sums over k of x[tokens, k, columns], in fp32 and in order, rounded once, without entries of no local expert."""
    total = torch.zeros(x.size(0), x.size(2), device=x.device)
    for j in range(x.size(1)):
        if ids is None:
            total += x[:, j].float()
            continue
        column = ids[:, j].long()
        counts = column >= 0
        if expert_map is not None:
            known = counts & (column < expert_map.numel())
            counts = known & (expert_map[torch.where(known, column, 0)] >= 0)
        total = torch.where(counts.unsqueeze(-1), total + x[:, j].float(), total)
    return total.to(x.dtype)
