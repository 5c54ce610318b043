"""Oracle of kernels/cuda/merge.cu."""

import math

import torch
from torch import Tensor


def merge(parts: Tensor, lse: Tensor, *, base2: bool) -> tuple[Tensor, Tensor]:
    """(output, log-sum-exp) in float64 for parts[part, token, head, width] and lse[part, token, head].

    NaN and +infinity count as -infinity; empty parts contribute nothing, whatever they hold; all empty gives zeros.
    """
    factor = math.log(2) if base2 else 1.0
    logs = lse.double() * factor
    logs = torch.where(logs.isnan() | (logs == math.inf), -math.inf, logs)
    largest = logs.amax(0)
    empty = largest == -math.inf
    weights = torch.exp(logs - torch.where(empty, 0.0, largest))
    total = weights.sum(0)  # at least 1, unless all are empty
    values = torch.where((logs == -math.inf).unsqueeze(-1), 0.0, parts.double())
    merged = (weights.unsqueeze(-1) * values).sum(0) / torch.where(empty, 1.0, total).unsqueeze(-1)
    return merged, (largest + total.log()) / factor


def gated(merged: Tensor, gate: Tensor) -> Tensor:
    """The product of merged (rounded already) and sigmoid(gate), rounded to gate's type, in float64."""
    return merged.double() * torch.sigmoid(gate.double()).to(gate.dtype).double()


def states(
    prefix: Tensor, prefix_lse: Tensor, suffix: Tensor, suffix_lse: Tensor, context: int
) -> tuple[Tensor, Tensor]:
    """(output, log-sum-exp) in float64 by upstream's rules, for parts[token, head, width] and lse[head, token].

    Infinities of either sign count as empty, NaN spreads; two empty parts give the prefix's output and -infinity;
    tokens from `context` on are the suffix's.
    """
    logs = torch.stack((prefix_lse, suffix_lse)).double().transpose(1, 2)
    logs = torch.where(logs.isinf(), -math.inf, logs)
    empty = torch.fmax(logs[0], logs[1]) == -math.inf
    total = torch.where(empty, -math.inf, torch.logsumexp(logs, dim=0))
    weights = torch.exp(logs - torch.where(empty, 0.0, total)).unsqueeze(-1)
    values = torch.where((logs == -math.inf).unsqueeze(-1), 0.0, torch.stack((prefix, suffix)).double())
    merged = torch.where(empty.unsqueeze(-1), prefix.double(), (weights * values).sum(0))
    merged[context:] = suffix[context:].double()
    total[context:] = suffix_lse.double().T[context:]
    return merged, total.T
