"""Drafting with a next-token head, a draft model and n-grams, and the verification of what they drafted."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch

from sm70.batch import DRAFTS, LENGTH, LONG, REQUESTS, TOKENS, ids, of

VOCABULARY, LOGITS, HIDDEN = 32000, 16, 1024


def cases() -> Iterator[tuple[str, Any]]:
    """A name and what to call."""
    for drawn in (False, True):
        how = "drafts drawn at random" if drawn else "greedy drafts"
        yield f"verification, {how}", lambda d=drawn: verify(d)
        yield f"verification by blocks, {how}", lambda d=drawn: verify(d, blocks=True)
    yield "verification", gather_drafted
    yield "verification", flatten
    yield "next-token head", head_prefill
    yield "next-token head", head_decode
    yield "next-token head", head_update
    yield "draft model", draft_model
    yield "n-grams", ngrams
    yield "drafts drawn at random", draw


def verify(drawn: bool, blocks: bool = False) -> None:
    from vllm.v1.worker.gpu.spec_decode.rejection_sampler_utils import rejection_sample

    drafted = torch.zeros(REQUESTS, DRAFTS, VOCABULARY) if drawn else None
    rejection_sample(
        torch.zeros(LOGITS, VOCABULARY), drafted, of(LOGITS), of(REQUESTS + 1), of(LOGITS, LONG), of(), of(LOGITS),
        of(LOGITS), of(REQUESTS, torch.float32), of(REQUESTS, LONG), DRAFTS, use_block_verification=blocks,
    )  # fmt: skip


def gather_drafted() -> None:
    from vllm.v1.worker.gpu.spec_decode.rejection_sampler import gather_draft_sampled

    gather_draft_sampled(of(TOKENS), of(TOKENS, LONG), of(LOGITS, LONG), of(LOGITS), of(LOGITS), of())


def flatten() -> None:
    from vllm.v1.worker.gpu.spec_decode.rejection_sampler import _flatten_sampled_kernel

    sampled = torch.zeros(REQUESTS, DRAFTS + 1, dtype=LONG)
    _flatten_sampled_kernel[(REQUESTS,)](of(LOGITS, LONG), sampled, sampled.stride(0), of(), of(REQUESTS + 1))


def buffers() -> Any:
    from vllm.v1.worker.gpu.input_batch import InputBuffers

    return InputBuffers(REQUESTS, TOKENS, torch.device("cpu"))


def batch() -> Any:
    """What the launchers read of an InputBatch."""
    import numpy

    return SimpleNamespace(
        num_reqs=REQUESTS,
        num_tokens=TOKENS,
        input_ids=of(TOKENS),
        positions=of(TOKENS, LONG),
        idx_mapping=of(),
        query_start_loc=of(REQUESTS + 1),
        query_start_loc_np=numpy.arange(REQUESTS + 1, dtype=numpy.int32) * (TOKENS // REQUESTS),
        seq_lens=of(),
    )


def head_prefill() -> None:
    from vllm.v1.worker.gpu.spec_decode.target_dependent_ar.speculator import prepare_prefill_inputs

    last, step = of(REQUESTS, LONG), torch.tensor(0, dtype=LONG)
    prepare_prefill_inputs(last, step, buffers(), batch(), of(), of(), of(), of(), REQUESTS)


def head_decode() -> None:
    from vllm.v1.worker.gpu.spec_decode.target_dependent_ar.speculator import prepare_decode_inputs

    drafts = torch.zeros(REQUESTS, DRAFTS, dtype=LONG)
    prepare_decode_inputs(drafts, of(), of(), buffers(), of(REQUESTS, LONG), LENGTH, REQUESTS)


def head_update() -> None:
    from vllm.v1.worker.gpu.spec_decode.target_dependent_ar.speculator import update_draft_inputs

    hidden, drafts = torch.zeros(REQUESTS, HIDDEN, dtype=torch.float16), torch.zeros(REQUESTS, DRAFTS, dtype=LONG)
    step, source = torch.tensor(0, dtype=LONG), of(REQUESTS, LONG)
    update_draft_inputs(
        of(REQUESTS, LONG), step, hidden, drafts, hidden.clone(), buffers(), source, REQUESTS, LENGTH, DRAFTS
    )


def draft_model() -> None:
    from vllm.v1.worker.gpu.spec_decode.standalone_ar.speculator import prepare_prefill_inputs

    room = TOKENS + REQUESTS
    prepare_prefill_inputs(
        buffers(), batch(), of(REQUESTS, LONG), of(), of(room), of(room, LONG), of(REQUESTS, LONG), REQUESTS, LENGTH
    )


def ngrams() -> None:
    from vllm.v1.worker.gpu.spec_decode.ngram.speculator import NgramGPUSpeculator

    class Self:
        drafts = torch.zeros(REQUESTS, DRAFTS, dtype=LONG)
        req_states = SimpleNamespace(all_token_ids=SimpleNamespace(gpu=ids()), total_len=SimpleNamespace(gpu=of()))
        scratch = torch.zeros(REQUESTS, 2, dtype=LONG)
        max_model_len, min_n, max_n, block_l, n_blocks, num_speculative_steps = LENGTH, 5, 5, 256, 2, DRAFTS

    sampled = torch.zeros(REQUESTS, 1, dtype=LONG)
    NgramGPUSpeculator.propose(
        Self,
        batch(),
        None,
        None,
        of(),
        None,
        of(),
        of(),
        sampled,
        of(),
        of(REQUESTS, torch.float32),
        of(REQUESTS, LONG),
    )


def draw() -> None:
    from vllm.v1.worker.gpu.sample.gumbel import gumbel_sample

    drafted, step = torch.zeros(REQUESTS, DRAFTS, VOCABULARY), torch.tensor(0, dtype=LONG)
    gumbel_sample(
        torch.zeros(REQUESTS, VOCABULARY), of(), of(REQUESTS, torch.float32), of(REQUESTS, LONG), of(REQUESTS, LONG),
        apply_temperature=True, is_drafting=True, logits_cache=drafted, logits_cache_col=step,
    )  # fmt: skip
