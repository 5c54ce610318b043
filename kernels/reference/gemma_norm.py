"""Oracles of kernels/cuda/gemma_norm.cu: the same formula in float64, and in float32 in the promised order."""

import torch
from torch import Tensor

PACK, SLOTS, WARP = 8, 512, 32


def added(x: Tensor, residual: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """(z in float32, the new residual in its own type); z is the correctly rounded sum."""
    if residual is None:
        return x.float(), None
    z = (x.double() + residual.double()).float()  # 53 bits >= 2 * 24 + 2: rounded twice is rounded once
    return z, z.to(residual.dtype)


def exact(z: Tensor, weight: Tensor, epsilon: float, offset: float) -> Tensor:
    """Give z / sqrt(mean(z^2) + epsilon) * (offset + weight) over the last dimension, in float64, not yet rounded."""
    wide = z.double()
    return wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon) * (offset + weight.double())


def ordered(z: Tensor, weight: Tensor, epsilon: float, offset: float) -> Tensor:
    """The same in float32, in the kernel's order, each operation rounded by itself; not yet in the result's type."""
    mean = _sum_of_squares(z) / torch.tensor(float(z.size(-1)), dtype=torch.float32, device=z.device)
    inside = mean + torch.tensor(epsilon, dtype=torch.float32, device=z.device)
    scale = 1.0 / inside.double().sqrt().float()  # torch's own float32 root is an ulp off on some CPUs
    return z * scale.unsqueeze(-1) * (offset + weight.float())


def _sum_of_squares(z: Tensor) -> Tensor:
    """Squares of the rows of z, added up slot by slot, then by halving inside each warp, then over the warps."""
    whole = -(-z.size(-1) // (PACK * SLOTS)) * PACK * SLOTS
    squares = torch.nn.functional.pad(z * z, (0, whole - z.size(-1))).unflatten(-1, (-1, SLOTS, PACK))
    slots = torch.zeros_like(squares[..., 0, :, 0])
    for rounds in range(squares.size(-3)):
        for element in range(PACK):
            slots = slots + squares[..., rounds, :, element]
    return _halved(_halved(slots.unflatten(-1, (-1, WARP))))


def _halved(x: Tensor) -> Tensor:
    """The last dimension, a power of two, becomes one number: the first half plus the second, again and again."""
    while x.size(-1) > 1:
        low, high = x.chunk(2, dim=-1)
        x = low + high
    return x.squeeze(-1)
