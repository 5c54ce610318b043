"""What a scale makes of E4M3's codes, against torch's conversion."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from toolkit.calibration.code_use import code_use, e4m3  # noqa: E402
from toolkit.calibration.distribution import Distribution  # noqa: E402
from toolkit.views.scales.float32 import scale_of  # noqa: E402


def distribution(values):
    counts = torch.bincount(values.float().abs().view(torch.int32) >> 20, minlength=2048)
    return Distribution(float(values.abs().max()), {n: c for n, c in enumerate(counts.tolist()) if c})


def as_torch(magnitude):
    return float(torch.tensor(magnitude).clamp(max=448).to(torch.float8_e4m3fn))


@given(st.floats(0, 1000, width=32))
def test_a_number_is_stored_as_torch_stores_it(magnitude):
    assert e4m3(magnitude) == as_torch(magnitude)


@pytest.mark.parametrize("edge", [2.0**power * m for power in range(-12, 9) for m in (1, 1.0625, 1.1875, 1.9375)])
def test_ties_and_edges(edge):
    below, above = (float(torch.nextafter(torch.tensor(edge), torch.tensor(to))) for to in (0.0, 1e9))
    for magnitude in (below, edge, above):
        assert e4m3(magnitude) == as_torch(magnitude)


def planted(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(100000, generator=generator) * torch.exp(torch.randn(100000, generator=generator))


def test_a_scale_too_large_shows_though_it_clips_nothing():
    found = distribution(planted())
    right = scale_of(found.largest)
    good, large, small = (code_use([(found, right * factor)]) for factor in (1, 16, 1 / 16))
    assert (good.largest_code, large.largest_code, small.largest_code) == (448, 28, 448)
    assert good.saturated == large.saturated == 0 < small.saturated
    assert large.subnormal > 4 * good.subnormal
    assert large.lost > good.lost


def test_layers_are_weighed_by_their_elements_and_the_least_used_is_shown():
    one = distribution(torch.full((100,), 0.01))
    other = distribution(torch.full((300,), 100.0))
    used = code_use([(one, 1.0), (other, 1.0)])
    assert (used.subnormal, used.saturated, used.lost) == (0.25, 0.0, 0.0)
    assert used.largest_code == e4m3(0.01) == 5 / 512
    assert code_use([(one, 1.0), (other, 0.1)]).saturated == 0.75
