# ruff: noqa: S101 - a check is an assertion
"""topk_topp_support: exact, and each row by its own parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from kernels.checks.compare import HALF, generator, same_bits
from kernels.reference import support as oracle


@dataclass(frozen=True)
class Params:
    """Temperature, top-k and top-p of each request, and which request a row belongs to."""

    temperature: Tensor
    top_k: Tensor
    top_p: Tensor
    request_of_row: Tensor | None = None

    def of_row(self, row: int) -> tuple[float, int, float]:
        """What the oracle needs for a row."""
        request = row if self.request_of_row is None else int(self.request_of_row[row])
        return self.temperature[request].item(), int(self.top_k[request]), self.top_p[request].item()


@dataclass(frozen=True)
class Support:
    """What topk_topp_support makes."""

    tokens: Tensor
    probabilities: Tensor
    counts: Tensor


TEMPERATURES = (0.7, 0.0, 1.0, 1.5, 0.25, 0.6)
TOP_KS = (20, 7, 1, 64, 3, 40)
SIZES = ((1, 1), (7, 64), (1000, 64), (1025, 1024), (5003, 100), (248320, 64))  # vocabulary, width
TOP_PS = (0.95, 1.0, 0.5, 0.8, 1.0, 0.0, 0.3)


def params(rows: int, device: str) -> Params:
    """A mixed batch: greedy and not, every k and p with every temperature sooner or later, as tensors of requests."""

    def cycle(values: tuple[float, ...], dtype: torch.dtype) -> Tensor:
        return torch.tensor([values[i % len(values)] for i in range(rows)], dtype=dtype, device=device)

    return Params(cycle(TEMPERATURES, torch.float32), cycle(TOP_KS, torch.int32), cycle(TOP_PS, torch.float32))


def make(logits: Tensor, by: Params, width: int) -> Support:
    """Call the operator, with poisoned results in rows that are further apart."""
    rows, device = logits.size(0), logits.device
    tokens = torch.full((rows, width + 5), 77, dtype=torch.int32, device=device)[:, :width]
    probabilities = torch.full((rows, width + 3), float("nan"), device=device)[:, :width]
    counts = torch.full((rows,), 77, dtype=torch.int32, device=device)
    torch.ops.volta.topk_topp_support(
        tokens, probabilities, counts, logits, by.temperature, by.top_k, by.top_p, by.request_of_row
    )
    return Support(tokens, probabilities, counts)


def _as_expected(made: Support, logits: Tensor, by: Params, what: str) -> None:
    """Every row against the oracle, bit for bit, and its probabilities against float64 without any agreed order."""
    wide, width = logits.cpu(), made.tokens.size(1)
    for row in range(logits.size(0)):
        support = oracle.support(wide[row], *by.of_row(row), width)
        wanted, count = support or {}, int(made.counts[row])
        expected = -1 if support is None else len(support)
        assert count == expected, f"{what}: row {row} has {count} tokens, not {expected}"
        ids, shares = made.tokens[row].tolist(), made.probabilities[row].cpu()
        assert ids == list(wanted) + [-1] * (width - len(wanted)), f"{what}: tokens of row {row}"
        padded = torch.zeros(width)
        padded[: len(wanted)] = torch.tensor(list(wanted.values()))
        same_bits(shares, padded, f"{what}: probabilities of row {row}")
        if wanted and wide[row].isfinite().any() and not (wide[row] == float("inf")).any():
            scale = by.of_row(row)[0] if by.of_row(row)[0] > 0 else 1.0
            exact = torch.softmax((wide[row].float()[list(wanted)] / scale).double(), 0)
            assert ((shares[: len(wanted)] - exact).abs() <= exact * 2.0**-23 + 2.0**-149).all(), what


def random_rows(device: str, dtype: torch.dtype, vocabulary: int, width: int, seed: int) -> None:
    """A mixed batch of random rows, with and without a map from rows to requests, on misaligned rows."""
    g = generator(device, seed)
    rows = 8 if vocabulary > 10000 else 42
    wide = torch.randn(rows, vocabulary + 3, generator=g, device=device).mul_(4).to(dtype)
    logits, by = wide[:, 1 : vocabulary + 1], params(rows, device)
    _as_expected(make(logits, by, width), logits, by, f"{dtype}, vocabulary {vocabulary}")
    mapped = replace(by, request_of_row=torch.randperm(rows, generator=g, device=device, dtype=torch.int32))
    _as_expected(make(logits, mapped, width), logits, mapped, f"{dtype}, vocabulary {vocabulary}, mapped")


def every_row_has_its_own_parameters(device: str, seed: int) -> None:
    """A mixed batch gives each row what it gets alone, and not what the first request's parameters would give it."""
    g = generator(device, seed)
    logits = torch.randn(42, 3000, generator=g, device=device) * 3
    by = params(42, device)
    batch = make(logits, by, 64)
    for row in range(42):
        alone = Params(*(values[row : row + 1] for values in (by.temperature, by.top_k, by.top_p)))
        single = make(logits[row : row + 1], alone, 64)
        for part, whole in zip(_parts(single), _parts(batch), strict=True):
            same_bits(part[0], whole[row], f"row {row} alone")
    changed = [{name: getattr(by, name)[:1].expand(42).contiguous()} for name in ("temperature", "top_k", "top_p")]
    for change in changed:
        others = make(logits, replace(by, **change), 64)
        different = (others.probabilities != batch.probabilities).any(1).sum().item()
        assert different > 15, f"{next(iter(change))} of the first request for all must show"


def _parts(made: Support) -> tuple[Tensor, Tensor, Tensor]:
    return made.tokens, made.probabilities, made.counts


def ties(device: str, seed: int) -> None:
    """Few distinct values: the border falls among equals, of which the lowest ids belong to the support."""
    g = generator(device, seed)
    for dtype, levels in ((HALF, 1), (HALF, 3), (torch.float32, 5)):
        logits = torch.randint(-levels, levels, (42, 2500), generator=g, device=device).to(dtype)
        logits[logits == 0] = torch.tensor([0.0, -0.0], dtype=dtype, device=device)[torch.arange(42) % 2][0]
        by = params(42, device)
        _as_expected(make(logits, by, 64), logits, by, f"{levels} levels of {dtype}")
    logits = torch.zeros(4, 3000, device=device)
    logits[:, ::2] = -0.0
    equal = Params(
        torch.ones(4, device=device),
        torch.tensor([1, 64, 63, 5], dtype=torch.int32, device=device),
        torch.tensor([1.0, 1.0, 0.5, 0.19], device=device),
    )
    made = make(logits, equal, 64)
    _as_expected(made, logits, equal, "zeros of both signs")
    assert made.counts.tolist() == [1, 64, 32, 1]


def top_p_alone(device: str, seed: int) -> None:
    """Top-k is off, or leaves more than there is room for: what top-p keeps where it fits, and -1 where not."""
    g = generator(device, seed)
    rows, width = 40, 100
    logits = torch.randn(rows, 7001, generator=g, device=device)
    logits *= torch.tensor([9.0, 5.0, 3.0, 1.0], device=device).repeat(10).unsqueeze(1)
    logits[::9] = (logits[::9] * 4).round() / 4  # ties at the border of top-k
    logits[5, 100:] = float("-inf")
    logits[6, 1000:] = float("nan")
    by = Params(
        torch.tensor([0.5, 1.0, 0.8, 1.3, 0.6, 1.0, 0.3, 0.7, 0.0, 1.0], device=device).repeat(4),
        torch.tensor([0, 7001, 101, 2000, -1], dtype=torch.int32, device=device).repeat(8),
        torch.tensor([0.9, 0.5, 0.99, 0.05, 1.0, 0.7, 0.95, 0.3], device=device).repeat(5),
    )
    made = make(logits, by, width)
    _as_expected(made, logits, by, "top-p alone")
    counts = made.counts.tolist()
    assert sum(count == -1 for count in counts) >= 5, "some do not fit"
    assert sum(count > 1 for count in counts) >= 12, "some do"


def special_rows(device: str) -> None:
    """Masked, NaN and infinite logits; k and p that filter nothing; no such request; supports that do not fit."""
    inf, nan = float("inf"), float("nan")
    logits = torch.full((12, 3000), -inf, device=device)
    logits[1] = nan
    logits[2, 5:9] = torch.tensor([1.0, nan, 2.0, -inf], device=device)  # two candidates
    logits[3, 10:14] = torch.tensor([inf, 3.0, inf, nan], device=device)
    logits[4, 2000:] = torch.linspace(-9, 9, 1000, device=device)  # whole vocabulary asked for, 1,000 are left
    logits[5] = torch.linspace(-9, 9, 3000, device=device)  # all of it: does not fit
    logits[6] = logits[5]  # k just as wide as there is room
    logits[7] = logits[5]  # k one more
    logits[8, :40] = 1000.0 * torch.arange(40, device=device)  # probabilities underflow
    logits[9, :40] = torch.arange(40, device=device) * 1e-30
    logits[10:] = logits[5]
    rows = torch.arange(12, dtype=torch.int32, device=device)
    rows[10], rows[11] = -1, 12
    by = Params(
        torch.tensor([1.0, 1.0, 1.0, 0.5, 1.0, 1.0, 2.0, 1.0, 0.01, nan, 1.0, 1.0], device=device),
        torch.tensor([5, 5, 0, 4, -1, 0, 1024, 1025, 40, 5, 5, 5], dtype=torch.int32, device=device),
        torch.tensor([1.0, 0.9, 1.0, 0.9, 1.0, 1.0, nan, 1.0, 1.0, 0.5, 1.0, 1.0], device=device),
        rows,
    )
    made = make(logits, by, 1024)
    assert made.counts.tolist() == [0, 0, 2, 2, 1000, -1, 1024, -1, 40, 1, 0, 0]
    assert made.tokens[3, :2].tolist() == [10, 12]
    assert made.probabilities[3, :2].tolist() == [0.5, 0.5]
    assert made.probabilities[8, :40].tolist() == [0.0] * 39 + [1.0]
    first = Params(by.temperature[:10], by.top_k[:10], by.top_p[:10])
    _as_expected(make(logits[:10], first, 1024), logits[:10], first, "special rows")
