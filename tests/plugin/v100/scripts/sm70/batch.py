"""What prepares a batch and follows a step: tokens, positions, block tables, slots, staged writes, fresh blocks."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch

REQUESTS, TOKENS, LENGTH, DRAFTS = 4, 64, 512, 3
INT, LONG = torch.int32, torch.int64


def cases() -> Iterator[tuple[str, Any]]:
    """A name and what to call."""
    yield "", prefill_inputs
    yield "", positions
    yield "sampled and drafted tokens", combine
    yield "drafts", count_rejected
    for bins in (False, True):
        yield f"after a step, {'with' if bins else 'without'} penalties", lambda b=bins: after(b)
    yield "after a step without samples", advance
    yield "drafts", expand
    yield "", gather_tables
    for ranks in (1, 2):
        yield f"{ranks} rank{'s' * (ranks > 1)} of context parallelism", lambda n=ranks: slots(n)
    for groups in (1, 2):
        yield f"{groups} table{'s' * (groups > 1)}", lambda n=groups: staged(n)
    yield "", fresh_blocks


def of(count: int = REQUESTS, dtype: torch.dtype = INT) -> torch.Tensor:
    """A vector of zeros."""
    return torch.zeros(count, dtype=dtype)


def ids() -> torch.Tensor:
    return torch.zeros(REQUESTS, LENGTH, dtype=INT)


def prefill_inputs() -> None:
    from vllm.v1.worker.gpu.input_batch import prepare_prefill_inputs

    later = torch.zeros(1, REQUESTS, dtype=INT)
    prepare_prefill_inputs(of(TOKENS), later, of(), of(REQUESTS + 1), ids(), of(), of())


def positions() -> None:
    from vllm.v1.worker.gpu.input_batch import prepare_pos_seq_lens

    prepare_pos_seq_lens(of(), of(REQUESTS + 1), of(), of(TOKENS, LONG), of())


def combine() -> None:
    from vllm.v1.worker.gpu.input_batch import combine_sampled_and_draft_tokens

    drafts, starts = torch.zeros(REQUESTS, DRAFTS, dtype=LONG), of(REQUESTS + 1)
    combine_sampled_and_draft_tokens(of(TOKENS), of(), of(), starts, of(), of(), drafts, starts, 16)


def count_rejected() -> None:
    from vllm.v1.worker.gpu.input_batch import get_num_sampled_and_rejected

    get_num_sampled_and_rejected(of(), of(), of(REQUESTS + 1), of(), of())


def after(bins: bool) -> None:
    from vllm.v1.worker.gpu.input_batch import post_update

    sampled, counts = torch.zeros(REQUESTS, DRAFTS + 1, dtype=LONG), torch.zeros(REQUESTS, 32000, dtype=INT)
    starts = of(REQUESTS + 1)
    post_update(of(), of(), of(), counts if bins else None, sampled, of(), of(), starts, ids(), of())


def advance() -> None:
    from vllm.v1.worker.gpu.input_batch import post_update_num_computed_tokens

    post_update_num_computed_tokens(of(), of(), of(REQUESTS + 1))


def expand() -> None:
    from vllm.v1.worker.gpu.input_batch import expand_idx_mapping

    expand_idx_mapping(of(), 16, of(REQUESTS + 1), DRAFTS + 1)


def tables(groups: int = 2, ranks: int = 1) -> Any:
    """What the launchers read of a BlockTables."""
    pointers, numbers = of(groups, torch.uint64), torch.zeros(groups, REQUESTS, dtype=INT)
    return SimpleNamespace(
        num_kv_cache_groups=groups,
        input_block_tables=[ids()] * groups,
        input_block_table_ptrs=pointers,
        block_table_ptrs=pointers,
        block_table_strides=of(groups, LONG),
        num_blocks=SimpleNamespace(gpu=numbers),
        block_sizes_tensor=of(groups),
        slot_mapping_enabled=of(groups, torch.bool),
        dcp_sharded=of(groups, torch.bool),
        slot_mappings=torch.zeros(groups, TOKENS, dtype=LONG),
        cp_rank=0,
        cp_size=ranks,
        cp_interleave=1,
    )


def gather_tables() -> None:
    from vllm.v1.worker.gpu.block_table import BlockTables

    BlockTables.gather_block_tables(tables(), of(), REQUESTS)


def slots(ranks: int) -> None:
    from vllm.v1.worker.gpu.block_table import BlockTables

    BlockTables.compute_slot_mappings(tables(ranks=ranks), of(), of(REQUESTS + 1), of(TOKENS, LONG), TOKENS)


def staged(groups: int) -> None:
    from vllm.v1.worker.gpu import buffer_utils

    kernel, several = buffer_utils._apply_write_kernel, groups > 1
    where = of(groups, torch.uint64) if several else ids()
    strides = of(groups, LONG) if several else ids().stride(0)
    kernel[(1,)](
        where, strides, of(), of(), of(), of(), of() if several else None, BLOCK_SIZE=1024, MULTI_GROUP=several
    )


def fresh_blocks() -> None:
    from vllm.v1.worker.utils import _zero_kv_blocks_kernel

    _zero_kv_blocks_kernel[(1, 1, 1)](of(4, LONG), of(4, LONG), of(4, LONG), of(4, LONG), BLOCK_SIZE=1024)
