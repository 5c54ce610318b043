"""Oracle of kernels/cuda/penalties.cu."""

import torch
from torch import Tensor


def apply(logits: Tensor, prompt_mask: Tensor, output_mask: Tensor, penalties: Tensor) -> Tensor:
    """Logits after the penalties: float64 quotients and products, rounded to fp32 and then to the logits' type."""
    x, p = logits.double(), penalties.double().unsqueeze(1)
    changed = torch.where(x > 0, x / p, x * p).float().to(logits.dtype)
    return torch.where(prompt_mask | output_mask, changed, logits)
