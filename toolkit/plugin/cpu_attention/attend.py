"""Attention of one sequence's new tokens over its keys and values, in float32.

Softmax(q k^T) v with what decoder models add to it; `q` comes scaled. The query of row i stands at position
context - rows + i, and grouped query heads share a KV head. The scores are made in tiles of query rows, so that their
memory does not grow with the square of a long prompt.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

SCORES_PER_TILE = 1 << 21
"""Scores held at once: 8 MiB, which stays in a last-level cache."""


@dataclass(frozen=True)
class Rules:
    """What a layer adds to plain attention.

    window:   a causal query sees this many positions up to its own; another one as many on both sides.
    soft_cap: scores become soft_cap * tanh(score / soft_cap).
    slopes:   ALiBi, float32 [heads]: slope * (key position - query position) is added to a score.
    sinks:    [heads]: a score that takes part in the softmax and has no value.
    """

    window: int | None = None
    soft_cap: float | None = None
    slopes: Tensor | None = None
    sinks: Tensor | None = None


@dataclass(frozen=True)
class Span:
    """Positions first..last-1."""

    first: int
    last: int


def visible(window: int | None, causal: bool, context: int, queries: Span) -> Span:
    """What queries at these positions see between them of `context` positions."""
    last = queries.last if causal else context
    if window is None:
        return Span(0, last)
    return Span(max(0, queries.first - window + 1), min(last, queries.last + window - 1))


def attend(query: Tensor, keys: Tensor, values: Tensor, rules: Rules, *, causal: bool, context: int) -> Tensor:
    """Attention output [rows, heads, head_size], float32.

    query: float32 [rows, heads, head_size], already multiplied by the softmax scale.
    keys, values: float32 [kv_heads, positions, head_size]: the last ones of what `visible` names for these queries.
    context: the sequence's length, new tokens included.
    """
    rows, heads, _ = query.shape
    seen = visible(rules.window, causal, context, Span(context - rows, context))
    step = max(1, SCORES_PER_TILE // max(1, heads * keys.shape[1]))
    output = torch.empty_like(query)
    for row in range(0, rows, step):
        tile = query[row : row + step]
        queries = Span(context - rows + row, context - rows + row + len(tile))
        span = visible(rules.window, causal, context, queries)
        part = slice(span.first - seen.first, span.last - seen.first)
        scores = _scores(tile, keys[:, part], rules, queries=queries, span=span, causal=causal)
        output[row : row + step] = _weighted(_softmax(scores, rules.sinks), values[:, part])
    return output


def _scores(query: Tensor, keys: Tensor, rules: Rules, *, queries: Span, span: Span, causal: bool) -> Tensor:
    """Scores [heads, rows, positions] of one tile, with -inf where a query must not look."""
    rows, heads, size = query.shape
    grouped = query.transpose(0, 1).reshape(len(keys), heads // len(keys) * rows, size)
    scores = torch.bmm(grouped, keys.transpose(1, 2)).view(heads, rows, keys.shape[1])
    if rules.soft_cap is not None:
        scores.div_(rules.soft_cap).tanh_().mul_(rules.soft_cap)
    one_sees_all = rows == 1 and (causal or rules.window is None)
    if one_sees_all and rules.slopes is None:
        return scores
    distance = torch.arange(span.first, span.last) - torch.arange(queries.first, queries.last).unsqueeze(1)
    if rules.slopes is not None:
        scores.add_(rules.slopes.view(heads, 1, 1) * distance)
    if causal:
        scores.masked_fill_(distance > 0, -torch.inf)
    if rules.window is not None:
        scores.masked_fill_(distance.abs() >= rules.window, -torch.inf)
    return scores


def _softmax(scores: Tensor, sinks: Tensor | None) -> Tensor:
    """Softmax over positions; a head's sink takes its share and is dropped."""
    if sinks is None:
        return torch.softmax(scores, dim=-1)
    sink = sinks.to(scores.dtype).view(-1, 1, 1).expand(-1, scores.shape[1], 1)
    return torch.softmax(torch.cat((scores, sink), dim=-1), dim=-1)[..., :-1].contiguous()


def _weighted(weights: Tensor, values: Tensor) -> Tensor:
    """Weights [heads, rows, positions] times values [kv_heads, positions, head_size], as [rows, heads, head_size]."""
    heads, rows, positions = weights.shape
    grouped = weights.view(len(values), heads // len(values) * rows, positions)
    return torch.bmm(grouped, values).view(heads, rows, values.shape[2]).transpose(0, 1)
