"""Bounds and shares from counts, against the same numbers sorted, and really converted to E4M3."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from toolkit.calibration.distribution import Distribution, merged  # noqa: E402
from toolkit.planning.kv_measurement import Tally  # noqa: E402

BIN = 1.125
"""A bin's upper edge over its lower one, at most."""


def sample(seed=1, count=50000, spread=2.0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, generator=generator) * torch.exp(torch.randn(count, generator=generator) * spread)


def distribution(values):
    bits = values.float().abs().view(torch.int32)
    counts = torch.bincount(bits >> 20, minlength=2048)
    return Distribution(float(values.abs().max()), {n: int(c) for n, c in enumerate(counts.tolist()) if c})


@pytest.mark.parametrize("share", [0.5, 0.9, 0.999, 0.9999, 1.0])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_bound_holds_and_is_at_most_one_bin_above(share, seed):
    values = sample(seed)
    bound = distribution(values).bound(share)
    magnitudes = values.abs().sort().values
    exact = float(magnitudes[max(0, round(share * len(values)) - 1)])
    assert int((values.abs() <= bound).sum()) >= share * len(values) - 1e-6
    assert exact <= bound <= exact * BIN


def test_the_bound_of_all_is_the_largest():
    assert distribution(torch.tensor([0.5, -3.0, 1.0])).bound(1.0) == 3.0
    assert Distribution().bound(0.999) == 0.0


@pytest.mark.parametrize("scale", [1e-4, 1e-2, 0.3, 1.0, 7.0])
def test_shares_are_those_of_a_real_conversion_but_for_one_bin(scale):
    """A share may lack the bin in which the limit lies, never more, and never counts too much."""
    values = sample(count=200000)
    found = distribution(values)
    quotients = values / scale
    clipped = quotients.abs() > 448
    stored = quotients.clamp(-448, 448).to(torch.float8_e4m3fn).float()
    lost = (stored == 0) & (values != 0)
    near_limit = ((quotients.abs() > 448 / BIN) & (quotients.abs() < 448 * BIN)).float().mean()
    near_zero = ((quotients.abs() > 2.0**-10 / BIN) & (quotients.abs() < 2.0**-10 * BIN)).float().mean()
    coarse = (stored != 0) & (stored.abs() < 2.0**-6)
    near_normal = ((quotients.abs() > 2.0**-6 / BIN) & (quotients.abs() < 2.0**-6 * BIN)).float().mean()
    assert abs(coarse.float().mean() - found.subnormal(scale)) <= near_normal + near_zero + 1e-9
    assert 0 <= clipped.float().mean() - found.saturated(scale) <= near_limit
    assert -1e-9 <= lost.float().mean() - found.lost(scale) <= near_zero


def test_nothing_that_was_seen_is_clipped_by_its_own_scale():
    from toolkit.views.scales.float32 import scale_of

    found = distribution(sample())
    assert found.saturated(scale_of(found.largest)) == 0.0
    assert found.saturated(scale_of(found.largest / 16)) > 0.0


def test_zeros_are_not_lost():
    assert distribution(torch.tensor([0.0, 0.0, 1.0])).lost(1.0) == 0.0


def test_merging_is_counting_together():
    values = sample()
    parts = [distribution(part) for part in values.split(7000)]
    assert merged(parts) == distribution(values)
    assert merged(Tally("a", "k", part.largest, part.bins) for part in parts) == distribution(values)


def test_octaves_are_powers_of_two():
    found = distribution(torch.tensor([0.0, 1.0, -1.5, 2.0, 0.125, 0.2499]))
    assert found.octaves() == {"zero": 1, "-3": 2, "0": 2, "1": 1}
