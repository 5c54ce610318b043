"""Oracle of kernels/cuda/rejection.cu: dense speculative sampling, over every token of the vocabulary, one request."""

from collections.abc import Sequence

import torch
from torch import Tensor


def dense(
    drafts: Sequence[int], target: Tensor, draft: Tensor | None, accept: Sequence[float], sample: float
) -> list[int]:
    """The tokens that one request gets: drafts that pass, then one more.

    target[drafts + 1, vocabulary] and draft[drafts, vocabulary] are probabilities; without `draft`, a draft had all.
    """
    for i, token in enumerate(drafts):
        p, q = target[i].double(), _draft_row(token, None if draft is None else draft[i], target.size(1))
        if token < 0 or not p[token].item() > accept[i] * q[token].item():
            residual = p if token < 0 else (p - q).nan_to_num(0.0).clamp(min=0)
            return [*drafts[:i], first_above(residual if residual.sum() > 0 else p, sample)]
    return [*drafts, first_above(target[len(drafts)].double(), sample)]


def _draft_row(token: int, row: Tensor | None, vocabulary: int) -> Tensor:
    q = torch.zeros(vocabulary, dtype=torch.float64)
    if row is not None:
        q[: row.numel()] = row.double()
    elif token >= 0:
        q[token] = 1
    return q


def first_above(weights: Tensor, uniform: float) -> int:
    """The first token whose running sum exceeds uniform * total, the sum taken from left to right."""
    places = weights.nonzero().flatten().tolist()
    total = 0.0
    for weight in weights[places].tolist():
        total += weight
    running = 0.0
    for place, weight in zip(places, weights[places].tolist(), strict=True):
        running += weight
        if running > uniform * total:
            return int(place)
    return 0  # nothing has any weight
