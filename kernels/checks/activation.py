# ruff: noqa: S101 - a check is an assertion
"""The gated activations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from kernels.checks.compare import Deviation, generator, misaligned, normal, poisoned, same_bits, ulp, within
from kernels.reference import activation


@dataclass(frozen=True)
class Operator:
    """An operator's oracle, which takes the operator's parameters after the input, and some of these.

    rounds: whether the activated gate is rounded before it is multiplied.
    """

    oracle: Callable[..., activation.Exact]
    parameters: tuple[tuple[float, ...], ...] = ((),)
    rounds: bool = True


OPERATORS = {
    "silu_and_mul": Operator(partial(activation.act_and_mul, activation.silu)),
    "gelu_and_mul": Operator(partial(activation.act_and_mul, activation.gelu)),
    "gelu_tanh_and_mul": Operator(partial(activation.act_and_mul, activation.gelu_tanh)),
    "mul_and_silu": Operator(activation.mul_and_silu),
    "fatrelu_and_mul": Operator(activation.fatrelu_and_mul, ((0.0,), (0.3,), (-2.5,))),
    "silu_and_mul_with_clamp": Operator(
        activation.silu_and_mul_with_clamp, ((7.0,), (2.3, 1.702, 1.0), (float("inf"), 0.5, -0.1), (0.0, 1.0, 0.5))
    ),
    "swigluoai_and_mul": Operator(
        activation.swigluoai_and_mul, ((), (1.0, 2.3), (1.702, float("inf")), (0.5, 0.0)), rounds=False
    ),
}
"""2.3 and 0.3 are no numbers of float16."""
SHAPES = ((1, 1), (3, 7), (2, 8), (5, 4352), (129, 2048), (3, 2056), (2, 17408))


def gated(device: str, name: str, dtype: torch.dtype, shape: tuple[int, int], *, shift: int, seed: int) -> Deviation:
    """Fresh inputs, gates up to about +-20, a poisoned result; every choice of parameters."""
    operator, g = OPERATORS[name], generator(device, seed)
    x = misaligned(normal((shape[0], 2 * shape[1]), dtype, g, 5.0), shift)
    found = []
    for parameters in operator.parameters:
        result = misaligned(poisoned(shape, dtype, g.device), shift)
        getattr(torch.ops.volta, name)(result, x, *parameters)
        exact, act, up = operator.oracle(x, *parameters)
        moved = act.abs() * 2.0**-20 + 2.0**-22 + (ulp(act, dtype) if operator.rounds else 0.0)
        bound = up.abs() * moved + (ulp(exact, dtype) if operator.rounds else exact.abs() * 2.0**-20)
        found.append(within(result, exact, bound, f"{name}{parameters} {dtype} {shape}"))
    return Deviation(max(each.worst for each in found), min(each.exact for each in found))


def strided(device: str, name: str, seed: int) -> None:
    """Rows of a wider tensor in, rows of a wider tensor out, three dimensions: what rows close together give."""
    g = generator(device, seed)
    wide = normal((3, 5, 200), torch.float16, g)
    x = wide[..., 8:136]
    out, dense = poisoned((3, 5, 100), torch.float16, g.device), poisoned((3, 5, 64), torch.float16, g.device)
    operator, parameters = getattr(torch.ops.volta, name), OPERATORS[name].parameters[-1]
    operator(out[..., 16:80], x, *parameters)
    operator(dense, x.contiguous(), *parameters)
    same_bits(out[..., 16:80], dense, f"{name} strided")
    exact, act, up = OPERATORS[name].oracle(x, *parameters)
    within(dense, exact, up.abs() * ulp(act, x.dtype) * 1.01 + ulp(exact, x.dtype), f"{name} of 64 columns")
    assert out[..., :16].isnan().all(), "elements before the rows must stay untouched"
    assert out[..., 80:].isnan().all(), "elements after the rows must stay untouched"


def every_half(device: str) -> Deviation:
    """Every finite half through silu, times one: the oracle's rounding or its neighbour."""
    gate = finite_halves(device)
    x = torch.stack((gate, torch.ones_like(gate)), dim=1).contiguous()
    result = torch.empty_like(gate).unsqueeze(1)
    torch.ops.volta.silu_and_mul(result, x)
    exact = activation.silu(gate.double())
    return within(result[:, 0], exact, exact.abs() * 2.0**-20 + 2.0**-40, "silu of every half")


def every_half_clamped(device: str) -> Deviation:
    """Every finite half as a gate of swigluoai_and_mul: the oracle's rounding or, close to a tie, its neighbour."""
    gate = finite_halves(device)
    x = torch.stack((gate, torch.zeros_like(gate)), dim=1).contiguous()
    result = torch.empty_like(gate).unsqueeze(1)
    torch.ops.volta.swigluoai_and_mul(result, x)
    exact, _, _ = activation.swigluoai_and_mul(x)
    reach = 1.0 + x[:, :1].double().abs() * 1.702 / 16
    return within(result, exact, exact.abs() * reach * 2.0**-20 + 2.0**-110, "swigluoai_and_mul of every half")


def every_half_above(device: str) -> None:
    """Every half as a gate of fatrelu_and_mul, at thresholds among and between the halves: bit for bit."""
    gate = torch.cat((finite_halves(device), torch.tensor([float("nan"), float("inf")], device=device).half()))
    x = torch.stack((gate, torch.ones_like(gate)), dim=1).contiguous()
    for threshold in (0.0, -0.0, 0.3, 0.300048828125, -1.0, 6e-8, 65504.0):
        result = poisoned((gate.numel(), 1), torch.float16, gate.device)
        torch.ops.volta.fatrelu_and_mul(result, x, threshold)
        expected = activation.fatrelu_and_mul(x, threshold)[0].half()
        same_bits(result, expected, f"fatrelu_and_mul above {threshold}")


def nan_stays(device: str, name: str) -> None:
    """A gate or an up that is NaN makes its own element NaN, whatever clamps it, and no other."""
    columns = 24
    for dtype in (torch.float16, torch.float32):
        x = torch.ones(2 * columns, 2 * columns, dtype=dtype, device=device)
        x.fill_diagonal_(float("nan"))
        result = torch.ones(2 * columns, columns, dtype=dtype, device=device)
        getattr(torch.ops.volta, name)(result, x, *OPERATORS[name].parameters[0])
        place = torch.arange(2 * columns, device=device)
        element = place // 2 if name == "swigluoai_and_mul" else place % columns
        expected = element.unsqueeze(1) == torch.arange(columns, device=device)
        assert torch.equal(result.isnan(), expected), f"{name} {dtype}: NaN in the wrong places"


def finite_halves(device: str) -> torch.Tensor:
    """Every finite half, once."""
    halves = torch.arange(65536, dtype=torch.int32, device=device).to(torch.uint16).view(torch.float16)
    return halves[halves.isfinite()]
