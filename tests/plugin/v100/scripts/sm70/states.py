"""Recurrent states between steps, as prefix caching in align mode and drafts move them; positions of three axes."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch

from sm70.batch import INT, LONG, REQUESTS, TOKENS, of

STATES, GROUPS = 8, 3


def cases() -> Iterator[tuple[str, Any]]:
    """A name and what to call."""
    yield "states of the blocks in use", aligned
    yield "before a step", before
    yield "before a step", copied
    yield "a block's states copied", moved
    yield "after a step with drafts", after
    yield "accepted tokens", accepted
    yield "rotary positions of three axes", rope_positions
    yield "rotary embedding of three axes", rope
    yield "norm, rotary embedding and gate of full attention", fused


def aligned() -> None:
    from vllm.v1.worker.mamba_utils import get_aligned_state_indices_multi_group_kernel as kernel

    found = torch.zeros(GROUPS, REQUESTS, 4, dtype=INT)
    kernel[(1,)](
        of(GROUPS, LONG), of(), found, 64, 1, *found.stride(), REQUESTS, CACHE_BLOCK_SIZE=144, NUM_GROUPS=GROUPS,
        BLOCK_GROUPS=4, NUM_STATE_SLOTS=4, BLOCK_STATE_SLOTS=4, BLOCK_ROWS=32, num_warps=1,
    )  # fmt: skip


def before() -> None:
    from vllm.v1.worker.mamba_utils import preprocess_mamba_align_fused_kernel as kernel

    kernel[(1,)](of(), of(), of(), of(REQUESTS + 1), of(), of(), of(), REQUESTS, BLOCK_SIZE=32, MAMBA_BLOCK_SIZE=144)


def context() -> Any:
    """What the launchers read of the states' metadata."""
    return SimpleNamespace(
        is_initialized=True,
        num_states=STATES,
        block_size=144,
        num_accepted_tokens_out=of(),
        block_table_ptrs=of(GROUPS, LONG),
        block_table_stride_req=64,
        state_base_addrs=of(STATES, LONG),
        state_block_strides=of(STATES, LONG),
        state_elem_sizes=of(STATES),
        state_inner_sizes=of(STATES, LONG),
        state_conv_widths=of(STATES),
        state_group_indices=of(STATES),
        state_dim_row_count=of(STATES),
        state_dim_row_stride=of(STATES, LONG),
    )


def copied() -> None:
    from vllm.v1.worker.mamba_utils import MambaSpecDecodeGPUContext

    MambaSpecDecodeGPUContext.run_fused_precopy(context(), REQUESTS, of(), of(), of(), of())


def moved() -> None:
    from vllm.v1.worker.mamba_utils import batch_memcpy

    batch_memcpy(of(STATES, LONG), of(STATES, LONG), of(STATES))


def after() -> None:
    from vllm.v1.worker.mamba_utils import MambaSpecDecodeGPUContext

    MambaSpecDecodeGPUContext.run_fused_postprocess_align(context(), REQUESTS, of(), of(), of(), of())


def accepted() -> None:
    from vllm.v1.worker.gpu.model_states import mamba_hybrid

    mamba_hybrid._scatter_num_accepted_kernel[(REQUESTS,)](of(), of(), of())
    mamba_hybrid._fill_num_accepted_kernel[(REQUESTS,)](of(), of(), 1)


def rope_positions() -> None:
    from vllm.v1.worker.gpu.mm.rope import _prepare_rope_positions_kernel as kernel

    positions, prefill = torch.zeros(3, TOKENS, dtype=LONG), torch.zeros(3 * REQUESTS, 512, dtype=INT)
    kernel[(REQUESTS,)](
        positions, positions.stride(0), prefill, 3 * 512, 512, of(), of(), of(REQUESTS + 1), of(), of(),
        BLOCK_SIZE=1024, NUM_DIMS=3,
    )  # fmt: skip


def rope() -> None:
    from vllm.model_executor.layers.rotary_embedding.mrope import triton_mrope

    query, key = torch.zeros(4, 8 * 256, dtype=torch.float16), torch.zeros(4, 2 * 256, dtype=torch.float16)
    angles = torch.zeros(3, 4, 32, dtype=torch.float16)
    triton_mrope(query, key, angles, angles, [11, 11, 10], 256, 64, True, True)


def fused() -> None:
    from vllm.model_executor.layers.fused_qk_norm_rope import fused_qk_rmsnorm_rope_gate

    half = torch.float16
    query, key = torch.zeros(4, 8 * 2 * 256, dtype=half), torch.zeros(4, 2 * 256, dtype=half)
    weight, cache = torch.zeros(256, dtype=half), torch.zeros(64, 64, dtype=half)
    for axes in (None, [11, 11, 10]):
        at = of(4, LONG) if axes is None else torch.zeros(3, 4, dtype=LONG)
        fused_qk_rmsnorm_rope_gate(query, key, weight, weight, cache, at, 1e-6, 8, 2, 256, 64, axes, 1.0)
