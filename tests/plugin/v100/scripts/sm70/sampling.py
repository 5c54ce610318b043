"""The sampler, and what prepares a batch for the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

ROWS, VOCABULARY = 4, 32000
INT = torch.int32


def cases() -> Iterator[tuple[str, Any]]:
    """A name and what to call."""
    yield "", temperature
    for wide in (False, True):
        yield "noise in float64" if wide else "noise in float32", lambda w=wide: gumbel(w)
    yield "", min_p
    yield "", penalties
    yield "", counts
    yield "", logprobs
    for k, p in ((True, False), (False, True), (True, True)):
        yield " and ".join(["top-k"] * k + ["top-p"] * p), lambda a=(k, p): support(*a)
    yield "top-p of few requests", support_of_few


def logits() -> torch.Tensor:
    return torch.zeros(ROWS, VOCABULARY)


def rows(dtype: torch.dtype = INT) -> torch.Tensor:
    return torch.zeros(ROWS, dtype=dtype)


def temperature() -> None:
    from vllm.v1.worker.gpu.sample.gumbel import apply_temperature

    apply_temperature(logits(), rows(), rows(torch.float32))


def gumbel(wide: bool) -> None:
    from vllm.v1.worker.gpu.sample.gumbel import gumbel_sample

    seed, at = rows(torch.int64), rows(torch.int64)
    gumbel_sample(logits(), rows(), rows(torch.float32), seed, at, True, False, use_fp64=wide)


def min_p() -> None:
    from vllm.v1.worker.gpu.sample.min_p import apply_min_p

    apply_min_p(logits(), rows(), rows(torch.float32))


def bins() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(ROWS, VOCABULARY // 32, dtype=INT), torch.zeros(ROWS, VOCABULARY, dtype=INT)


def penalties() -> None:
    from vllm.v1.worker.gpu.sample.penalties import apply_penalties

    factor = rows(torch.float32)
    apply_penalties(logits(), rows(), rows(), rows(), factor, factor, factor, *bins())


def counts() -> None:
    from vllm.v1.worker.gpu.sample.penalties import bincount

    bincount(rows(), torch.zeros(ROWS, 512, dtype=INT), rows(), rows(), *bins(), 512)


def logprobs() -> None:
    from vllm.v1.worker.gpu.sample.logprob import compute_topk_scores

    compute_topk_scores(logits(), 5, rows(torch.int64))


def support(k: bool, p: bool) -> None:
    from vllm.v1.sample.ops import topk_topp_triton

    topk_topp_triton.num_compute_units = lambda *_: 80
    topk_topp_triton.apply_top_k_top_p_triton(logits(), rows() if k else None, rows(torch.float32) if p else None)


def support_of_few() -> None:
    from vllm.v1.sample.ops import topk_topp_triton

    topk_topp_triton._apply_topp_split(torch.zeros(1, 152064), None, torch.zeros(1), -torch.inf, 80)
