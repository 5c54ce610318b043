"""Every byte and every 16-bit float, against the formats' definitions."""

from __future__ import annotations

import fp8_reference as reference
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from toolkit.plugin.cpu_attention.fp8 import E4M3, E5M2, format_of  # noqa: E402

FORMATS = [pytest.param(E4M3, reference.E4M3, id="e4m3"), pytest.param(E5M2, reference.E5M2, id="e5m2")]
HALVES = torch.arange(-32768, 32768).to(torch.int16)


def codes_of(values):
    return torch.from_numpy(values)


def decoded(form, codes):
    return (form.decode(codes) * form.gain).double().numpy()


def assert_encodes(form, ref, values, scale=1.0):
    """Ours equals the reference for float `values`; a NaN may have either sign."""
    got = form.encode(values, scale).numpy()
    quotients = (values.float() / scale).double().numpy()
    nan = np.isnan(quotients)
    assert np.array_equal(got[~nan], ref.encode(quotients[~nan]))
    assert np.isnan(decoded(form, torch.from_numpy(got[nan]))).all()


@pytest.mark.parametrize(("form", "ref"), FORMATS)
def test_every_code_stands_for_its_value(form, ref):
    got, want = decoded(form, torch.arange(256, dtype=torch.uint8)), ref.table()
    assert np.array_equal(got, want, equal_nan=True)
    numbers = ~np.isnan(want)
    assert np.array_equal(np.signbit(got)[numbers], (np.arange(256) >= 128)[numbers]), "0x80 is minus zero"


@pytest.mark.parametrize(("form", "ref"), FORMATS)
def test_every_finite_code_comes_back(form, ref):
    codes = np.array([code for code in range(256) if np.isfinite(ref.value(code))], dtype=np.uint8)
    values = torch.from_numpy(ref.table()[codes]).float()
    assert np.array_equal(form.encode(values, 1.0).numpy(), codes)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("form", "ref"), FORMATS)
def test_every_16_bit_float_rounds_as_defined(form, ref, dtype):
    assert_encodes(form, ref, HALVES.view(dtype))


@pytest.mark.parametrize(("form", "ref"), FORMATS)
def test_ties_and_their_neighbours(form, ref):
    finite = np.array([ref.value(code) for code in range(128) if np.isfinite(ref.value(code))])
    ties = ((finite[1:] + finite[:-1]) / 2).astype(np.float32)
    around = np.concatenate([ties, np.nextafter(ties, np.float32(np.inf)), np.nextafter(ties, np.float32(-np.inf))])
    assert_encodes(form, ref, torch.from_numpy(np.concatenate([around, -around])))


@pytest.mark.parametrize(("form", "ref"), FORMATS)
def test_beyond_the_largest_saturates_and_nan_stays(form, ref):
    huge = torch.tensor([form.largest * 1.5, 3.0e38, torch.inf, -torch.inf, torch.nan])
    assert np.array_equal(
        decoded(form, form.encode(huge, 1.0)),
        [form.largest, form.largest, form.largest, -form.largest, np.nan],
        equal_nan=True,
    )


@pytest.mark.parametrize("scale", [0.0123, 1.0, 0.5, 7.3, 1e-6, 1e6])
@pytest.mark.parametrize(("form", "ref"), FORMATS)
def test_scale_divides_before_rounding(form, ref, scale):
    values = torch.randn(20000, generator=torch.Generator().manual_seed(3)) * 100
    assert_encodes(form, ref, values, scale)


def test_encoding_leaves_its_input_alone():
    values = torch.tensor([1e6, 1.0])
    E4M3.encode(values, 1.0)
    assert values.tolist() == [1e6, 1.0]


def test_shapes_stay():
    assert E4M3.encode(torch.zeros(0, 3, 4), 1.0).shape == (0, 3, 4)
    strided = torch.arange(24, dtype=torch.uint8).view(2, 3, 4).transpose(0, 2)
    assert np.array_equal(decoded(E5M2, strided), reference.E5M2.table()[strided.numpy()])


def test_names_of_the_formats():
    assert [format_of(name) for name in ("fp8", "fp8_e4m3", "fp8_e5m2")] == [E4M3, E4M3, E5M2]
