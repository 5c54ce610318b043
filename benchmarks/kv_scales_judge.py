"""The statistics of kv_scales.py: paired differences over prompts, the codes that an arm used, and what both say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

DRAWS = 20000
LEVEL = 0.95
CALIBRATED, UNIT = "e4m3, calibrated", "e4m3, unit scales"
VISIBLE = 2.0
"""A share of coarse and lost codes this many times the calibrated one's is called visible."""


def scaled_name(factor: float) -> str:
    """The arm whose scales are the calibrated ones times a factor."""
    if factor == 1:
        return CALIBRATED
    return f"e4m3, scales {factor:g} times too large" if factor > 1 else f"e4m3, scales {1 / factor:g} times too small"


@dataclass(frozen=True)
class Paired:
    """The mean over prompts of one arm's value minus another's, with a bootstrap interval of that mean."""

    mean: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """`worse`, `better`, or `no different`: beyond what the choice of prompts explains."""
        if self.low > 0:
            return "worse"
        return "better" if self.high < 0 else "no different"


def paired(first: Sequence[float], second: Sequence[float], level: float) -> Paired:
    """Of first - second, prompt by prompt; percentile bootstrap over prompts, the same draws for every pair."""
    differences = torch.tensor(first, dtype=torch.float64) - torch.tensor(second, dtype=torch.float64)
    drawn = torch.randint(len(differences), (DRAWS, len(differences)), generator=torch.Generator().manual_seed(0))
    means = differences[drawn].mean(1).sort().values
    outside = round((1 - level) / 2 * DRAWS)
    return Paired(float(differences.mean()), float(means[outside]), float(means[-1 - outside]))


def own_positions(sequences: Sequence[Sequence[int]]) -> list[slice]:
    """Where each sequence's own tokens lie in all sequences laid end to end: behind the beginning that all share."""
    shared = 0
    while len({tuple(tokens[: shared + 1]) for tokens in sequences}) == 1 and shared < min(map(len, sequences)):
        shared += 1
    ends = list(accumulate(map(len, sequences)))
    return [slice(end - len(tokens) + shared, end) for tokens, end in zip(sequences, ends, strict=True)]


@dataclass(frozen=True)
class Codes:
    """What the bytes of a cache are used for: shares (0..1) of all of them, over all layers."""

    largest: float
    """The largest number stored, in the layer where it is smallest; scales are not multiplied in."""
    at_largest: float
    """The share at the format's largest number, where everything larger ends."""
    subnormal: float
    """Stored with fewer significant bits than the format has."""
    zero: float

    @property
    def coarse(self) -> float:
        """What is stored with fewer bits than the format has, or none."""
        return self.subnormal + self.zero


def codes_of(counts: Tensor, dtype: torch.dtype) -> Codes:
    """counts: how often each byte is stored, [layers, 256]. ValueError where a NaN is."""
    values = torch.arange(256, dtype=torch.uint8).view(dtype).float().abs()
    if counts[:, ~values.isfinite()].any():
        raise ValueError("the cache holds NaN or infinity")
    values = values.nan_to_num(0.0, 0.0)
    total, form = float(counts.sum()), torch.finfo(dtype)

    def share(chosen: Tensor) -> float:
        return float(counts[:, chosen].sum()) / total

    largest = [float(values[layer > 0].max()) for layer in counts]
    subnormal = (values > 0) & (values < form.smallest_normal)
    return Codes(min(largest), share(values == form.max), share(subnormal), share(values == 0))


def judged(arms: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """KL and top-1 agreement of each arm minus the calibrated one's.

    The interval of unit scales is one of 95 %. Of all others together 95 % are meant to hold (Bonferroni).
    """
    reference, found = arms[CALIBRATED], {}
    others = [name for name in arms if name != CALIBRATED]
    for name in others:
        level = LEVEL if name == UNIT else 1 - (1 - LEVEL) / (len(others) - 1)
        kl, top1 = (paired(arms[name][key], reference[key], level) for key in ("kl_by_prompt", "top1_by_prompt"))
        found[name] = {
            "level": level,
            "kl": [kl.mean, kl.low, kl.high],
            "top1": [top1.mean, top1.low, top1.high],
            "verdict": kl.verdict,
        }
    return found


def claims(arms: Mapping[str, Any], against: Mapping[str, Any], codes: Mapping[str, Mapping[str, Codes]]) -> list[str]:
    """What was measured, in sentences; each is worked out, none is written in advance."""
    unit = against[UNIT]
    words = {
        "worse": "better than unit scales beyond noise",
        "better": "WORSE than unit scales beyond noise",
        "no different": "not worse than unit scales beyond noise",
    }
    low, high = (-value for value in reversed(unit["kl"][1:]))
    interval = f"{unit['level']:.0%} interval {low:+.5f} to {high:+.5f}"
    first = f"calibrated is {words[unit['verdict']]}: its KL minus theirs is {-unit['kl'][0]:+.5f} nats, {interval}"
    wrong = [name for name in arms if "times too" in name]
    seen = {name: _seen(against[name], codes[name], codes[CALIBRATED]) for name in wrong}
    return [first, *(f"{name.removeprefix('e4m3, ')}: {text}" for name, text in seen.items())]


def calibrated_holds(against: Mapping[str, Any]) -> bool:
    """Whether calibrated scales are not worse than unit scales beyond noise."""
    return bool(against[UNIT]["verdict"] != "better")


def _seen(compared: Mapping[str, Any], codes: Mapping[str, Codes], good: Mapping[str, Codes]) -> str:
    low, high = compared["kl"][1:]
    text = f"KL {compared['verdict']} ({low:+.5f} to {high:+.5f} nats against calibrated)"
    if compared["top1"][2] < 0 or compared["top1"][1] > 0:
        text += ", top-1 agreement {:+.2%} ({:+.2%} to {:+.2%})".format(*compared["top1"])
    signs = []
    for kind, what in (("k", "keys"), ("v", "values")):
        mine, theirs = codes[kind], good[kind]
        if mine.largest < theirs.largest:
            signs.append(f"{what} reach {mine.largest:g} of {theirs.largest:g}")
        if mine.at_largest > VISIBLE * theirs.at_largest:
            signs.append(f"{mine.at_largest:.2%} of the {what} lie at the largest code, not {theirs.at_largest:.4%}")
        if mine.coarse > VISIBLE * theirs.coarse:
            signs.append(f"{mine.coarse:.2%} of the {what} are coarse or zero, not {theirs.coarse:.2%}")
    return f"{text}; {'; '.join(signs) if signs else 'its codes do not show it'}"
