# ruff: noqa: S101 - a check is an assertion
"""moe_align_block_size, its LoRA and batched forms, and moe_sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.checks.compare import generator, misaligned, normal, poisoned, same_bits
from kernels.reference import moe as oracle

INT = torch.int32


@dataclass(frozen=True)
class Shape:
    """Tokens, experts a token, experts, places of a block."""

    tokens: int
    k: int
    experts: int
    block: int


# no token, one, decoding and prefill of Mixtral, Qwen1.5 and Qwen3, more experts than entries, all experts there can be
SHAPES = (
    Shape(0, 2, 8, 16),
    Shape(1, 1, 1, 1),
    Shape(1, 8, 128, 16),
    Shape(33, 2, 8, 16),
    Shape(257, 4, 60, 48),
    Shape(1025, 8, 128, 64),
    Shape(300, 10, 512, 8),
    Shape(40, 3, 1027, 5),
    Shape(3, 2, 4096, 16),
)
# where the kernel divides its work: experts at the edges of a block's, entries at those of a warp's segment and a batch
EDGES = (
    Shape(32, 8, 1, 16),
    Shape(1025, 1, 7, 8),
    Shape(1023, 1, 8, 16),
    Shape(2049, 4, 9, 16),
    Shape(4096, 4, 64, 64),
    Shape(4097, 4, 65, 16),
    Shape(400, 10, 512, 64),
    Shape(1639, 10, 513, 8),
    Shape(1025, 2, 4096, 4),
)
SUMS = ((1, 1, 1), (3, 8, 2048), (70, 10, 264), (5, 6, 33), (257, 2, 72), (2, 40, 5120))
# which ids come: all experts alike, nearly all one expert, many that do not exist
SPREADS = ("even", "skewed", "strange")


def _ids(g: torch.Generator, shape: Shape, spread: str, dtype: torch.dtype) -> Tensor:
    size = (shape.tokens, shape.k)
    if spread == "strange":
        ids = torch.randint(-3, shape.experts + 3, size, generator=g, device=g.device)
        ids[::3, 0] = torch.iinfo(dtype).max
    else:
        ids = torch.randint(0, shape.experts, size, generator=g, device=g.device)
    if spread == "skewed":
        ids[torch.rand(size, generator=g, device=g.device) < 0.9] = shape.experts // 2
    return ids.to(dtype)


def _map(g: torch.Generator, experts: int) -> Tensor:
    """Half of the experts are here, in another order; the others are elsewhere."""
    order = torch.randperm(experts, generator=g, device=g.device).to(INT)
    return torch.where(order < (experts + 1) // 2, order, -1)


def _room(entries: int, experts: int, block: int) -> tuple[int, int]:
    """Places and blocks that upstream's caller allocates."""
    places = entries + experts * (block - 1)
    if entries < experts:
        places = min(entries * block, places)
    return places, -(-places // block)


def _compare(expected: oracle.Aligned, sorted_ids: Tensor, block_experts: Tensor, total: Tensor, what: str) -> None:
    for result, wanted, name in (
        (sorted_ids, expected.sorted, "sorted_token_ids"),
        (block_experts, expected.block_experts, "experts_ids"),
        (total, [expected.total], "num_tokens_post_pad"),
    ):
        same_bits(result, torch.tensor(wanted, dtype=INT, device=result.device), f"{name} of {what}")


def align(device: str, shape: Shape, spread: str, dtype: torch.dtype, *, mapped: bool, seed: int) -> None:
    """Outputs of upstream's sizes, poisoned; with and without a map and scatter_idx."""
    g = generator(device, seed)
    ids = _ids(g, shape, spread, dtype)
    expert_map = _map(g, shape.experts) if mapped else None
    if expert_map is not None and spread == "strange":
        expert_map[::4] += shape.experts  # no such expert either
    room = _room(ids.numel(), shape.experts, shape.block)
    outputs = [poisoned((size,), INT, g.device) for size in (*room, 1)]
    scatter = poisoned((ids.numel(), 1), INT, g.device) if mapped or spread == "strange" else None
    torch.ops.volta.moe_align_block_size(ids, shape.experts, shape.block, *outputs, expert_map, scatter)
    lists = oracle.lists_of(ids, shape.experts, expert_map)
    _compare(oracle.lay_out(lists, shape.block, room, ids.numel()), *outputs, f"{shape} {spread}")
    if scatter is not None:
        here = {entry for entries in lists for entry in entries}
        wanted = [entry if entry in here else -1 for entry in range(ids.numel())]
        same_bits(scatter[:, 0], torch.tensor(wanted, dtype=INT, device=g.device), "scatter_idx")


def short_outputs(device: str) -> None:
    """Outputs that are too small are filled as far as they go, and nothing behind them is touched."""
    ids = torch.arange(16, dtype=INT, device=device) % 4
    room = poisoned((12,), INT, ids.device), poisoned((5,), INT, ids.device)
    total = poisoned((1,), INT, ids.device)
    torch.ops.volta.moe_align_block_size(ids, 4, 3, room[0][:10], room[1][:2], total, None)
    expected = oracle.lay_out(oracle.lists_of(ids, 4, None), 3, (10, 2), 16)
    _compare(expected, room[0][:10], room[1][:2], total, "short outputs")
    assert expected.total == 24, "every expert has two blocks of three"
    assert (room[0][10:] == 255).all(), "behind sorted_token_ids"
    assert (room[1][2:] == 255).all(), "behind experts_ids"


def lora(device: str, *, mapped: bool, seed: int) -> None:
    """Three of five adapters in a batch: one switched off, one slot for tokens without any, one that does not exist."""
    g = generator(device, seed)
    shape, adapters = Shape(90, 4, 40, 16), 5
    ids = _ids(g, shape, "strange", INT)
    expert_map = _map(g, shape.experts) if mapped else None
    of_token = torch.randint(-1, adapters, (shape.tokens,), generator=g, device=g.device).to(INT)
    enabled = torch.tensor([1, 0, 1, 1, 1], dtype=INT, device=g.device)
    slots = torch.tensor([-1, 0, 1, 4, 7, 2], dtype=INT, device=g.device)
    room = _room(ids.numel(), shape.experts, shape.block)
    outputs = [poisoned((adapters * size,), INT, g.device) for size in (*room, 1)]
    torch.ops.volta.moe_lora_align_block_size(
        ids, of_token, shape.experts, shape.block, adapters, *room, *outputs, enabled, slots, expert_map
    )
    for adapter in range(adapters):
        parts = [output.view(adapters, -1)[adapter] for output in outputs]
        if adapter in (1, 3):  # switched off; not among the slots
            assert all((part == 255).all() for part in parts), f"adapter {adapter} was touched"
            continue
        kept = (of_token == adapter).repeat_interleave(shape.k)
        lists = oracle.lists_of(ids, shape.experts, expert_map, kept)
        _compare(oracle.lay_out(lists, shape.block, room, ids.numel()), *parts, f"adapter {adapter}")


def batched(device: str, counts: Sequence[int], rows: int, block: int) -> None:
    """Counts below zero or above the rows of a batch count as the nearest possible."""
    batches = len(counts)
    room = batches * -(-rows // block) * block, batches * -(-rows // block)
    numbers = torch.tensor(counts, dtype=INT, device=device)
    outputs = [poisoned((size,), INT, numbers.device) for size in (*room, 1)]
    torch.ops.volta.batched_moe_align_block_size(rows, block, numbers, *outputs)
    lists = [[b * rows + i for i in range(max(0, min(count, rows)))] for b, count in enumerate(counts)]
    _compare(oracle.lay_out(lists, block, room, batches * rows), *outputs, f"batches {counts}")


def moe_sum(device: str, dtype: torch.dtype, shape: tuple[int, int, int], *, variant: int, seed: int) -> None:
    """Variants: plain, ids with -1, strided ids and a map, a transposed input; entries that are left out hold NaN."""
    g = generator(device, seed)
    tokens, k, columns = shape
    x = normal((tokens, k, columns + 8), dtype, g, 3.0)[..., :columns]
    ids = expert_map = None
    if variant in (1, 2):
        ids = torch.randint(-1, 9, (tokens, k), generator=g, device=g.device)
        ids = ids.to(INT) if variant == 1 else ids.T.contiguous().T
        expert_map = _map(g, 8) if variant == 2 else None
        x[_left_out(ids, expert_map)] = float("nan")
    elif variant == 3:
        x = x.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    result = misaligned(poisoned((tokens, columns), dtype, g.device), variant % 2)
    torch.ops.volta.moe_sum(x, result, ids, expert_map)
    same_bits(result, oracle.moe_sum(x, ids, expert_map), f"moe_sum {dtype} {shape}")
    assert not result.isnan().any(), "an entry that is left out was added"


def _left_out(ids: Tensor, expert_map: Tensor | None) -> Tensor:
    if expert_map is None:
        return ids < 0
    return torch.tensor(
        [[not (0 <= e < expert_map.numel() and int(expert_map[e]) >= 0) for e in row] for row in ids.tolist()],
        device=ids.device,
    )
