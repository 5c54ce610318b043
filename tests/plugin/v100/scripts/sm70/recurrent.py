"""The gated delta rule of Qwen3-Next and Qwen3.5: 2 key heads and 4 value heads of 128."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

HALF = torch.float16


def cases() -> Iterator[tuple[str, Any]]:
    """A name and what to call."""
    for state in (torch.float32, HALF):
        yield f"decode, state {str(state).removeprefix('torch.')}", lambda s=state: decode(s)
    yield "verification of drafts", verify
    yield "decode", convolve
    yield "prefill", convolve_prefill
    yield "prefill", prepare
    yield "prefill", prefill
    yield "gated norm", norm


def decode(state: torch.dtype) -> None:
    from vllm.third_party.flash_linear_attention.ops import fused_recurrent_gated_delta_rule_packed_decode as step

    gate = torch.zeros(2, 4, dtype=HALF)
    states = torch.zeros(4, 4, 128, 128, dtype=state)
    out = torch.zeros(2, 1, 4, 128, dtype=HALF)
    at = torch.zeros(2, dtype=torch.int32)
    mixed = torch.zeros(2, 2 * 2 * 128 + 4 * 128, dtype=HALF)
    step(mixed, gate, gate, torch.zeros(4), torch.zeros(4), 0.1, states, out, at, True)


def verify() -> None:
    from vllm.third_party.flash_linear_attention.ops import fused_sigmoid_gating_delta_rule_update as update

    gate = torch.zeros(4, 4, dtype=HALF)
    keys, values = torch.zeros(1, 4, 2, 128, dtype=HALF), torch.zeros(1, 4, 4, 128, dtype=HALF)
    states = torch.zeros(8, 4, 128, 128)
    starts = torch.tensor([0, 2, 4], dtype=torch.int32)
    update(
        torch.zeros(4), gate, gate, torch.zeros(4), keys, keys, values, initial_state=states, cu_seqlens=starts,
        ssm_state_indices=torch.zeros(2, 2, dtype=torch.int32),
        num_accepted_tokens=torch.ones(2, dtype=torch.int32), use_qk_l2norm_in_kernel=True,
    )  # fmt: skip


def convolve() -> None:
    from vllm.model_executor.layers.mamba.ops.causal_conv1d import causal_conv1d_update

    states = torch.zeros(4, 3, 1024, dtype=HALF).transpose(1, 2)
    at = torch.zeros(2, dtype=torch.int32)
    rows, weight = torch.zeros(2, 1024, dtype=HALF), torch.zeros(1024, 4, dtype=HALF)
    causal_conv1d_update(rows, states, weight, None, "silu", conv_state_indices=at)


def convolve_prefill() -> None:
    from vllm.model_executor.layers.mamba.ops.causal_conv1d import causal_conv1d_fn

    states = torch.zeros(4, 3, 1024, dtype=HALF).transpose(1, 2)
    rows, weight = torch.zeros(16, 1024, dtype=HALF).T, torch.zeros(1024, 4, dtype=HALF)
    starts = torch.tensor([0, 16], dtype=torch.int32)
    causal_conv1d_fn(
        rows, weight, None, states, starts, torch.zeros(1, dtype=torch.int32), torch.ones(1, dtype=torch.bool)
    )


def prefill() -> None:
    from vllm.third_party.flash_linear_attention.ops import chunk_gated_delta_rule

    keys, values = torch.zeros(1, 128, 2, 128, dtype=HALF), torch.zeros(1, 128, 4, 128, dtype=HALF)
    gate = torch.zeros(1, 128, 4)
    starts = torch.tensor([0, 128], dtype=torch.int32)
    chunk_gated_delta_rule(
        keys, keys, values, gate, gate.to(HALF), initial_state=torch.zeros(1, 4, 128, 128), output_final_state=True,
        cu_seqlens=starts, chunk_indices=torch.tensor([[0, 0], [0, 1]], dtype=torch.int32),
        chunk_offsets=torch.tensor([0, 2], dtype=torch.int32), use_qk_l2norm_in_kernel=True,
    )  # fmt: skip


def prepare() -> None:
    from vllm.third_party.flash_linear_attention.ops import fused_post_conv_prep

    gate = torch.zeros(16, 4, dtype=HALF)
    mixed = torch.zeros(16, 2 * 2 * 128 + 4 * 128, dtype=HALF)
    fused_post_conv_prep(mixed, gate, gate, torch.zeros(4), torch.zeros(4), 2, 128, 128)


def norm() -> None:
    from vllm.third_party.flash_linear_attention.ops import RMSNormGated

    rows = torch.zeros(16, 128, dtype=HALF)
    RMSNormGated(128, norm_before_gate=True, device="cpu", dtype=HALF)(rows, rows)
