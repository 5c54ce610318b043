# ruff: noqa: S101 - a check is an assertion
"""topk_softmax, topk_sigmoid and topk_softplus_sqrt."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from kernels.checks.compare import FLOAT, HALF, Deviation, generator, normal, poisoned, same_bits, within
from kernels.reference import topk as oracle

SCORINGS = ("softmax", "sigmoid", "softplus_sqrt")
# rows x experts x k: one expert, parts of a warp, Mixtral, Qwen1.5, Qwen3, DeepSeek, Qwen3-Next, all experts, more than
# a lane keeps
SHAPES = (
    (3, 1, 1),
    (9, 3, 3),
    (37, 8, 2),
    (33, 60, 4),
    (130, 128, 8),
    (17, 256, 8),
    (19, 512, 10),
    (2, 1000, 1000),
    (5, 1536, 33),
)


@dataclass(frozen=True)
class Call:
    """Arguments of one call beside the logits; what is None is not given."""

    renormalise: bool = False
    bias: Tensor | None = None
    factor: float = 1.0
    padding: Tensor | None = None
    tokens: Tensor | None = None
    table: Tensor | None = None
    image_bias: Tensor | None = None
    image_start: int = 0


@dataclass(frozen=True)
class Routed:
    """What a call wrote: weights, ids and source rows, each [rows, k]."""

    weights: Tensor
    ids: Tensor
    source_rows: Tensor = field(repr=False)


def route(scoring: str, logits: Tensor, k: int, call: Call, ids_type: torch.dtype = torch.int32) -> Routed:
    """One call with poisoned outputs."""
    shape = (logits.size(0), k)
    out = Routed(
        poisoned(shape, FLOAT, logits.device),
        poisoned(shape, ids_type, logits.device),
        poisoned(shape, torch.int32, logits.device),
    )
    outputs = out.weights, out.ids, out.source_rows
    ops = torch.ops.volta
    if scoring == "softmax":
        ops.topk_softmax(*outputs, logits, call.renormalise, call.bias, call.padding)
    elif scoring == "sigmoid":
        ops.topk_sigmoid(*outputs, logits, call.renormalise, call.bias, call.factor, call.padding)
    else:
        by_token = call.tokens, call.table, call.padding, call.image_bias, call.image_start
        ops.topk_softplus_sqrt(*outputs, logits, call.renormalise, call.factor, call.bias, *by_token)
    return out


def topk(
    device: str, scoring: str, dtype: torch.dtype, shape: tuple[int, int, int], *, variant: int, seed: int
) -> Deviation:
    """Logits with many ties, in a wider tensor; variants: plain, renormalised, biased, all of it with padding."""
    g = generator(device, seed)
    rows, experts, k = shape
    logits = normal((rows, experts + 3), dtype, g, 3.0)[:, 1 : experts + 1]
    logits[:, ::5] = logits[:, ::5].round()
    bias = normal((experts,), FLOAT, g, 0.05) if variant >= 2 else None
    padding = torch.rand(rows, generator=g, device=g.device) < 0.3 if variant == 3 else None
    call = Call(variant % 2 == 1, bias, 1.0 if scoring == "softmax" or variant < 3 else 2.5, padding)
    ids_type = torch.int64 if variant % 2 else torch.int32
    routed = route(scoring, logits, k, call, ids_type)
    expected = torch.arange(rows * k, dtype=torch.int32, device=g.device).view(k, rows).T
    same_bits(routed.source_rows, expected, "source rows")
    plain = (
        routed if padding is None else route(scoring, logits, k, Call(call.renormalise, bias, call.factor), ids_type)
    )
    if padding is not None:
        same_bits(routed.ids, plain.ids.masked_fill(padding.unsqueeze(-1), -1), "ids of padding rows")
        same_bits(routed.weights, plain.weights, "weights beside padding")
    return check(scoring, logits, plain, call)


def check(scoring: str, logits: Tensor, routed: Routed, call: Call) -> Deviation:
    """Compare ids and weights of rows that choose by their scores with the oracle."""
    values = oracle.scores(logits, scoring)
    ids, experts = routed.ids.long(), logits.size(1)
    distance = (
        logits.double().amax(-1, keepdim=True) - logits.double() if scoring == "softmax" else torch.zeros_like(values)
    )
    relative = (64 + experts / 16 + 2 * distance.nan_to_num(0.0, 0.0, 0.0)) * 2.0**-24
    images = None if call.tokens is None else oracle.images_of(call.tokens, call.image_start)
    choices = oracle.choices(values, call.bias, call.image_bias, images)
    error = values * relative + choices.abs() * 2.0**-23 + 2.0**-125
    same_input = _same_input(logits, values, call.bias)
    check_order(ids, choices, error, same_input)
    exact = oracle.weights(values, ids, renormalise=call.renormalise, factor=call.factor)
    bound = exact * relative.gather(1, ids).amax(-1, keepdim=True) + 2.0**-125
    return within(routed.weights, exact, bound, f"topk_{scoring} {tuple(logits.shape)}")


def _same_input(logits: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
    """[rows, e, f]: whether experts e and f look the same, so that only their numbers decide."""
    biases = torch.zeros_like(values[0]) if bias is None else bias.double()
    keys = torch.where(values == 0, -torch.inf, logits.double())
    return (keys.unsqueeze(-1) == keys.unsqueeze(-2)) & (biases.unsqueeze(-1) == biases)


def check_order(ids: Tensor, choices: Tensor, error: Tensor, same_input: Tensor) -> None:
    """Distinct experts, best first as far as their choices' errors allow; equal inputs by the lower expert, exactly."""
    rows, k = ids.shape
    assert ((ids >= 0) & (ids < choices.size(1))).all(), "an expert that does not exist"
    turns = torch.arange(k, device=ids.device)
    place = torch.full_like(choices, k, dtype=torch.int64).scatter_(1, ids, turns.expand(rows, k))
    assert int((place < k).sum()) == rows * k, "an expert twice"
    later = place.unsqueeze(1) > turns.view(1, k, 1)  # [rows, turn, expert]
    best_left = torch.where(later, (choices - error).unsqueeze(1), -torch.inf).amax(-1)
    assert ((choices + error).gather(1, ids) >= best_left).all(), "a better expert comes later, or not at all"
    twins = same_input.gather(1, ids.unsqueeze(-1).expand(-1, -1, choices.size(1)))
    numbers = torch.arange(choices.size(1), device=ids.device)
    before = twins & (numbers < ids.unsqueeze(-1))
    early = place.unsqueeze(1) < turns.view(1, k, 1)
    assert (early | ~before).all(), "equal experts out of order"


def special_values(device: str, scoring: str) -> None:
    """NaN, infinities and underflow: never a duplicate, never a weight that is not finite."""
    inf, nan = float("inf"), float("nan")
    rows = [[nan] * 6, [0.0, nan, 1.0, 2.0, -1.0, 0.5], [inf, 0.0, inf, 1.0, -inf, 0.0], [-inf] * 6, [-300.0, 0.0] * 3]
    rows += [[-inf, 1.0, -inf, 2.0, -inf, -inf]]
    for dtype in (FLOAT, HALF):
        logits = torch.tensor(rows, dtype=dtype, device=device)
        for renormalise in (False, True):
            call = Call(renormalise)
            routed = route(scoring, logits, 4, call)
            assert routed.weights.isfinite().all(), f"topk_{scoring}: a weight that is not finite"
            check(scoring, logits, routed, call)
            if scoring == "softmax":
                same_bits(
                    routed.ids[:4], torch.arange(4, dtype=torch.int32, device=device).expand(4, 4), "spoiled rows"
                )
                assert not routed.weights[:4].any(), "spoiled rows have no weights"


def strange_bias(device: str) -> None:
    """Biases far below zero, infinite and NaN: still every expert once, NaN last."""
    logits = torch.zeros(2, 7, device=device)
    bias = torch.tensor([-3e4, float("nan"), 1.0, float("inf"), -float("inf"), -3e4, -0.25], device=device)
    routed = route("sigmoid", logits, 7, Call(bias=bias))
    expected = torch.tensor([3, 2, 6, 0, 5, 4, 1], dtype=torch.int32, device=device).expand(2, 7)
    same_bits(routed.ids, expected, "order of strange biases")


def by_token(device: str, seed: int) -> Deviation:
    """topk_softplus_sqrt with a table, an image bias, and tokens and experts that do not exist."""
    g = generator(device, seed)
    rows, experts, k, vocabulary = 70, 48, 6, 40
    logits, bias = normal((rows, experts), FLOAT, g, 4.0), normal((experts,), FLOAT, g)
    tokens = torch.randint(-1, vocabulary + 2, (rows,), generator=g, device=g.device, dtype=torch.int32)
    table = torch.rand(vocabulary, experts, generator=g, device=g.device).argsort(-1)[:, :k].contiguous()
    table[3, 2], table[4, 0] = -1, experts
    call = Call(True, None, 1.5, None, tokens, table, bias, 20)
    routed = route("softplus_sqrt", logits, k, call)
    images = oracle.images_of(tokens, 20)
    assert images.any(), "no image among the tokens"
    same_bits(routed.ids[~images].long(), oracle.listed(tokens, table, experts)[~images], "listed experts")
    values = oracle.scores(logits, "softplus_sqrt")
    exact = oracle.weights(values, routed.ids.long(), renormalise=True, factor=1.5)
    chosen = Routed(routed.weights[images], routed.ids[images], routed.source_rows[images])
    check("softplus_sqrt", logits[images], chosen, Call(True, bias, 1.5))
    return within(routed.weights, exact, exact * 67 * 2.0**-24, "topk_softplus_sqrt by token")


def batch_invariant(device: str, seed: int) -> None:
    """A row has the same bits alone and among others."""
    g = generator(device, seed)
    for experts in (8, 60, 512, 700):
        logits = normal((65, experts), HALF, g, 3.0)
        together, alone = (
            route("softmax", logits, 8, Call(True)),
            route("softmax", logits[40:41].clone(), 8, Call(True)),
        )
        same_bits(alone.weights[0], together.weights[40], "weights of one row")
        same_bits(alone.ids[0], together.ids[40], "ids of one row")
