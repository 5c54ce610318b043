"""Oracle of kernels/cuda/norm.cu."""

import torch
from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor | None, epsilon: float) -> Tensor:
    """Give x / sqrt(mean(x^2) + epsilon) * weight over the last dimension, in float64 and not yet rounded."""
    wide = x.double()
    scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
    return scaled if weight is None else scaled * weight.double()


def fused_add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor | None, epsilon: float) -> tuple[Tensor, Tensor]:
    """(the normalised sum in float64, the new residual in x's type); the sum is rounded before it is normalised."""
    total = (x.double() + residual.double()).to(x.dtype)
    return rms_norm(total, weight, epsilon), total
