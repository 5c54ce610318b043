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
