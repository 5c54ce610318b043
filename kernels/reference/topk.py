"""Oracle of kernels/cuda/topk.cu."""

import torch
from torch import Tensor

IMAGE_TOKENS = 5


def scores(logits: Tensor, scoring: str) -> Tensor:
    """Scores [rows, experts] in float64; those that are not finite count as zero."""
    x = logits.double()
    if scoring == "softmax":
        result = torch.softmax(x, dim=-1)  # NaN throughout for a NaN, +infinity, or nothing but -infinity
    elif scoring == "sigmoid":
        result = torch.sigmoid(x)
    else:
        result = torch.where(x > 20, x, torch.log1p(torch.exp(x))).sqrt()
    return torch.where(result.isfinite(), result, 0.0)


def choices(values: Tensor, bias: Tensor | None, image_bias: Tensor | None, images: Tensor | None) -> Tensor:
    """What experts are chosen by: scores with the row's bias, in float64."""
    text = values if bias is None else values + bias.double()
    if image_bias is None or images is None:
        return text
    return torch.where(images.unsqueeze(-1), values + image_bias.double(), text)


def images_of(tokens: Tensor, first: int) -> Tensor:
    """Which rows' tokens stand for an image."""
    return (tokens >= first) & (tokens < first + IMAGE_TOKENS)


def listed(tokens: Tensor, table: Tensor, experts: int) -> Tensor:
    """The table's experts for each token; -1 where the token or the expert does not exist."""
    inside = (tokens >= 0) & (tokens < table.size(0))
    ids = table[torch.where(inside, tokens, 0).long()].long()
    return torch.where(inside.unsqueeze(-1) & (ids >= 0) & (ids < experts), ids, -1)


def weights(values: Tensor, ids: Tensor, *, renormalise: bool, factor: float) -> Tensor:
    """Weights [rows, k] in float64 of the chosen experts; an id of -1 has none."""
    taken = torch.where(ids < 0, 0.0, values.gather(1, ids.clamp(min=0)))
    total = taken.sum(-1, keepdim=True)
    return taken / torch.where((total > 0) & renormalise, total, 1.0) * factor


def group_pairs(choices_of_rows: Tensor, groups: int) -> Tensor:
    """The two best choices of each group [rows, groups, 2], best first; of its only one twice a half."""
    members = choices_of_rows.unflatten(1, (groups, -1))
    if members.size(-1) == 1:
        return members.expand(-1, -1, 2) / 2
    return members.topk(2, dim=-1).values


def winning_groups(pairs: Tensor) -> Tensor:
    """Groups [rows, groups] in the order of the sum of their two best choices; the lower group of equal ones first."""
    return pairs.sum(-1).sort(dim=-1, descending=True, stable=True).indices
