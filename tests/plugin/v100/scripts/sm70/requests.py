"""What single requests ask of the sampler: bad words, biases, grammars, log-probabilities of the prompt."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch

from sm70.batch import INT, LONG, REQUESTS, TOKENS, ids, of

VOCABULARY = 32000


def cases() -> Iterator[tuple[str, Any]]:
    """A name and what to call."""
    yield "bad words", bad_words
    for check in (False, True):
        yield f"logit bias{', every token masked' if check else ''}", lambda c=check: bias(c)
    yield "grammars", grammar
    yield "log-probabilities of the prompt", prompt
    yield "log-probabilities of chosen tokens", chosen
    yield "the kept tokens", kept
    yield "count of NaNs", nans
    yield "a budget for thinking", thinking


def logits() -> torch.Tensor:
    return torch.zeros(REQUESTS, VOCABULARY)


def listed(width: int, dtype: torch.dtype = INT) -> torch.Tensor:
    return torch.zeros(REQUESTS, width, dtype=dtype)


def bad_words() -> None:
    from vllm.v1.worker.gpu.sample.bad_words import apply_bad_words

    apply_bad_words(logits(), of(), listed(1024), listed(129), of(), ids(), of(), of(), of(TOKENS), of(), 4)


def bias(check: bool) -> None:
    from vllm.v1.worker.gpu.sample.logit_bias import apply_logit_bias

    wide, values = listed(1024), listed(1024, torch.float32)
    apply_logit_bias(
        logits(), of(), of(REQUESTS, LONG), of(), wide, of(), wide, values, of(), of(), of(), listed(128), check
    )


def grammar() -> None:
    from vllm.v1.worker.gpu.structured_outputs import _apply_grammar_bitmask_kernel

    mask, rows = listed(VOCABULARY // 32), logits()
    _apply_grammar_bitmask_kernel[(1, 1)](
        rows, rows.stride(0), of(), of(REQUESTS + 1), mask, mask.stride(0), VOCABULARY, MASK_STRIDE=4, BLOCK_SIZE=8192
    )


def prompt() -> None:
    from vllm.v1.worker.gpu.sample.prompt_logprob import get_prompt_logprobs_token_ids

    get_prompt_logprobs_token_ids(TOKENS, of(REQUESTS + 1), of(), of(), ids())


def chosen() -> None:
    from vllm.v1.worker.gpu.sample.logprob import compute_topk_scores

    state = SimpleNamespace(num_token_ids=SimpleNamespace(gpu=of()), token_ids=SimpleNamespace(gpu=listed(128)))
    compute_topk_scores(logits(), 5, of(REQUESTS, LONG), None, state, of(), 8)


def kept() -> None:
    from vllm.v1.worker.gpu.sample.output import SamplingMaskTensors

    SamplingMaskTensors.from_logits(logits(), of(REQUESTS + 1), of(), 64)


def nans() -> None:
    from vllm.v1.worker.gpu.metrics.logits import get_num_nans

    get_num_nans(logits())


def thinking() -> None:
    from vllm.v1.worker.gpu.sample.thinking_budget import apply_thinking_budget

    marks = of(2)
    apply_thinking_budget(
        logits(), of(), of(), of(), ids(), of(), of(TOKENS), of(), of(), of(), of(), marks, marks, marks
    )
