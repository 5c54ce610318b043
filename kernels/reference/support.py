"""Oracle of kernels/cuda/support.cu: sort everything, then cut, by the kernel's float64 operations one by one."""

import math

import torch
from torch import Tensor

_FACTORIALS = tuple(1.0 / math.factorial(power) for power in range(14))


def exponential(x: float) -> float:
    """e^x for x <= 0, by the operations of kernels/common/exponential.h."""
    if not x > -700.0:
        return 0.0
    n = x * 1.4426950408889634 + 1.5 * 2.0**52 - 1.5 * 2.0**52
    r = x + n * -float.fromhex("0x1.62e42feep-1") + n * -float.fromhex("0x1.a39ef35793c76p-33")
    total = 0.0
    for factor in reversed(_FACTORIALS):
        total = total * r + factor
    return math.ldexp(total, int(n))


def support(logits: Tensor, temperature: float, top_k: int, top_p: float, width: int) -> dict[int, float] | None:
    """Probabilities (fp32 numbers) of the tokens that one row can yield, by id; None for more than `width`."""
    greedy = not temperature > 0
    wide = logits.float()
    scaled = (wide if greedy else wide / torch.tensor(temperature, dtype=torch.float32)).tolist()
    found = (wide > -math.inf).nonzero().flatten()
    order = found[wide[found].sort(descending=True, stable=True).indices].tolist()
    order = order[:1] if greedy else order[:top_k] if top_k > 0 else order
    weights = [1.0 if scaled[i] == scaled[order[0]] else exponential(scaled[i] - scaled[order[0]]) for i in order]
    limit = torch.tensor(top_p, dtype=torch.float32).item() * (
        _sum(weights) if len(order) <= width else _mass(dict(zip(order, weights, strict=True)), wide)
    )
    kept, total = 0, 0.0
    while kept < len(weights) and (kept == 0 or not top_p < 1 or total < limit):
        total += weights[kept]
        kept += 1
    if kept > width:
        return None
    shares = torch.tensor([weight / total for weight in weights[:kept]], dtype=torch.float64).float().tolist()
    return dict(sorted(zip(order[:kept], shares, strict=True)))


def _sum(numbers: list[float]) -> float:
    """Left to right (Python's own sum compensates)."""
    total = 0.0
    for number in numbers:
        total += number
    return total


def _mass(weights: dict[int, float], logits: Tensor) -> float:
    """The kernel's sum over many tokens, given in order: 1,024 slots by id, halved; the last and its equals apart."""
    last = next(reversed(weights))
    above = [i for i in weights if logits[i] > logits[last]]
    slots = torch.zeros(1024, dtype=torch.float64)
    for i in sorted(above):
        slots[i % 1024] += weights[i]
    while slots.numel() > 1:
        low, high = slots.chunk(2)
        slots = low + high
    return slots.item() + (len(weights) - len(above)) * weights[last]
