"""Oracle of kernels/cuda/activation.cu."""

import math
from collections.abc import Callable

import torch
from torch import Tensor


def silu(x: Tensor) -> Tensor:
    """The gate times its own sigmoid."""
    return x * torch.sigmoid(x)


def gelu(x: Tensor) -> Tensor:
    """The gate times Phi(x), Phi the normal distribution; erfc keeps its precision where x is far below zero."""
    return x * 0.5 * torch.special.erfc(-x / math.sqrt(2))


def gelu_tanh(x: Tensor) -> Tensor:
    """The tanh approximation of gelu. 1 + tanh(u) is 2 sigmoid(2u), which keeps its precision for negative u."""
    return x * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def act_and_mul(act: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(result, act(gate), up) in float64, for x[.., 2 d] = gate | up; act(gate) rounds to x's type, result does not."""
    gate, up = x.double().chunk(2, dim=-1)
    activated = act(gate).to(x.dtype).double()
    return activated * up, activated, up
