# ruff: noqa: S101 - a check is an assertion
"""dcp_local_seq_lens and dcp_slot_mapping: exact integers."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from kernels.checks.compare import generator, same_bits
from kernels.reference import dcp as oracle
from kernels.reference.dcp import Share

SHARES = tuple(
    Share(dcp, rank, interleave)
    for dcp, interleave in itertools.product((1, 2, 3, 8), (1, 2, 5, 16))
    for rank in sorted({0, dcp // 2, dcp - 1})
)


def _poisoned(count: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.full((count,), 0x5A5A5A5A, dtype=dtype, device=device)


def local_seq_lens(device: str, share: Share, seed: int) -> None:
    """Every length up to 300, zero and below, the longest int32, padding behind them; a strided view, too."""
    g = generator(device, seed)
    lengths = torch.arange(-2, 301, device=device, dtype=torch.int32)
    lengths = lengths[torch.randperm(lengths.size(0), generator=g, device=device)]
    result = _poisoned(320, torch.int32, g.device)
    torch.ops.volta.dcp_local_seq_lens(result, lengths, share.dcp, share.rank, share.interleave)
    wanted = [oracle.local_length(length, share) for length in lengths.tolist()] + [0] * 17
    assert result.tolist() == wanted, f"{share}"
    spread = _poisoned(606, torch.int32, g.device)
    torch.ops.volta.dcp_local_seq_lens(spread[::2], lengths, share.dcp, share.rank, share.interleave)
    assert spread[::2].tolist() == wanted[:303], f"{share}, strided"
    assert (spread[1::2] == 0x5A5A5A5A).all(), "entries between"


def ranks_share_everything(device: str, seed: int) -> None:
    """Over all ranks the local lengths add up, and every slot mapping but one says -1; up to the longest int32."""
    g = generator(device, seed)
    lengths = torch.randint(0, 2**31 - 1, (500,), generator=g, device=device, dtype=torch.int32)
    lengths[:3] = torch.tensor([0, 1, 2**31 - 1], dtype=torch.int32)
    for dcp, interleave in ((1, 1), (2, 1), (7, 3), (64, 2**20), (3, 2**31 - 1), (2**31 - 1, 2**31 - 1)):
        total = torch.zeros(500, dtype=torch.int64, device=device)
        for rank in range(min(dcp, 64)):
            part = _poisoned(500, torch.int32, g.device)
            torch.ops.volta.dcp_local_seq_lens(part, lengths, dcp, rank, interleave)
            assert (part >= 0).all(), "a length is never negative"
            total += part
        same_bits(total, lengths.long(), f"dcp {dcp}, interleave {interleave}")


def slot_mapping(device: str, share: Share, block_size: int, seed: int) -> None:
    """Requests of several sizes, empty ones, one without a row, one past its table, padding; all against the oracle."""
    g = generator(device, seed)
    starts = [0, 9, 9, 60, 61, 130, 140]
    columns = 6
    table = torch.randperm(8 * columns, generator=g, device=device, dtype=torch.int32).view(8, columns)
    table[5, 1] = -1
    wide = torch.full((8, columns + 3), 77777, dtype=torch.int32, device=device)
    wide[:, :columns] = table
    rows = [5, 0, 7, 3, 1, -1]
    first = [0, 0, 3, 40, block_size * share.dcp * columns - 30, 2]
    positions = torch.tensor(
        [first[r] + i for r in range(6) for i in range(starts[r + 1] - starts[r])], dtype=torch.int64, device=device
    )
    positions[4] = -1
    wanted = []
    for request, row in enumerate(rows):
        blocks = table[row].tolist() if row >= 0 else []
        own = positions[starts[request] : starts[request + 1]].tolist()
        wanted += [oracle.slot(position, blocks, block_size, share) for position in own]
    result = _poisoned(150, torch.int64, g.device)
    arguments = (
        torch.tensor(starts, dtype=torch.int32, device=device),
        wide[:, :columns],
        block_size,
        share.dcp,
        share.rank,
        share.interleave,
    )
    torch.ops.volta.dcp_slot_mapping(
        result, positions, *arguments, torch.tensor(rows, dtype=torch.int32, device=device)
    )
    assert result.tolist() == wanted + [-1] * 10, f"{share}, blocks of {block_size}"


def every_position_has_one_owner(device: str, seed: int) -> None:
    """Each rank's slots of one request are 0, 1, 2, ... of its blocks in order, and each token has exactly one."""
    g = generator(device, seed)
    tokens, block_size, interleave, dcp = 1000, 16, 4, 3
    starts = torch.tensor([0, tokens], dtype=torch.int32, device=device)
    table = torch.randperm(40, generator=g, device=device, dtype=torch.int32).unsqueeze(0)
    owners = torch.zeros(tokens, dtype=torch.int64, device=device)
    for rank in range(dcp):
        slots = _poisoned(tokens, torch.int64, g.device)
        positions = torch.arange(tokens, device=device)
        torch.ops.volta.dcp_slot_mapping(slots, positions, starts, table, block_size, dcp, rank, interleave)
        mine = slots[slots >= 0]
        local = torch.arange(mine.size(0), device=device)
        same_bits(mine, table[0, local // block_size].long() * block_size + local % block_size, f"rank {rank}")
        length = _poisoned(1, torch.int32, g.device)
        torch.ops.volta.dcp_local_seq_lens(length, starts[1:], dcp, rank, interleave)
        assert length.item() == mine.size(0), "as many slots as the local length says"
        owners += slots >= 0
    assert (owners == 1).all(), "one owner each"
