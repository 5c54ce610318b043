"""Oracle of kernels/cuda/activation.cu.

Each operator's gives three float64 tensors: the result, which is not rounded, and its two factors.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

Exact = tuple[Tensor, Tensor, Tensor]


def silu(x: Tensor) -> Tensor:
    """The gate times its own sigmoid."""
    return x * torch.sigmoid(x)


def gelu(x: Tensor) -> Tensor:
    """The gate times Phi(x), Phi the normal distribution; erfc keeps its precision where x is far below zero."""
    return x * 0.5 * torch.special.erfc(-x / math.sqrt(2))


def gelu_tanh(x: Tensor) -> Tensor:
    """The tanh approximation of gelu. 1 + tanh(u) is 2 sigmoid(2u), which keeps its precision for negative u."""
    return x * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def act_and_mul(act: Callable[[Tensor], Tensor], x: Tensor) -> Exact:
    """(result, act(gate), up) for x[.., 2 d] = gate | up; act(gate) rounds to x's type."""
    gate, up = x.double().chunk(2, dim=-1)
    activated = act(gate).to(x.dtype).double()
    return activated * up, activated, up


def mul_and_silu(x: Tensor) -> Exact:
    """(result, silu(gate), up) for x[.., 2 d] = up | gate; silu(gate) rounds to x's type."""
    return act_and_mul(silu, torch.cat(x.chunk(2, dim=-1)[::-1], dim=-1))


def fatrelu_and_mul(x: Tensor, threshold: float) -> Exact:
    """(result, gate where it is above the threshold, up) for x[.., 2 d] = gate | up; what is not above it is 0."""
    return act_and_mul(lambda gate: gate.masked_fill(gate <= single(threshold), 0.0), x)


def silu_and_mul_with_clamp(x: Tensor, limit: float, alpha: float = 1.0, beta: float = 0.0) -> Exact:
    """(result, act, up + beta) for x[.., 2 d] = gate | up, both clamped and then rounded to x's type, as act is."""
    gate, up = x.double().chunk(2, dim=-1)
    gate = gate.clamp(max=single(limit)).to(x.dtype).double()
    up = up.clamp(-single(limit), single(limit)).to(x.dtype).double() + single(beta)
    activated = (gate * torch.sigmoid(single(alpha) * gate)).to(x.dtype).double()
    return activated * up, activated, up


def swigluoai_and_mul(x: Tensor, alpha: float = 1.702, limit: float = 7.0) -> Exact:
    """(result, act, up + 1) for x[.., 2 d] = gate, up, gate, up, ..; nothing rounds before the result."""
    gate, up = x.double().unflatten(-1, (-1, 2)).unbind(-1)
    gate, up = gate.clamp(max=single(limit)), up.clamp(-single(limit), single(limit)) + 1.0
    activated = gate * torch.sigmoid(single(alpha) * gate)
    return activated * up, activated, up


def single(x: float) -> float:
    """A parameter as the operators take it: in fp32."""
    return torch.tensor(x, dtype=torch.float32).item()
