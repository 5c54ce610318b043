"""Scale shards: what is written, what is read, and each way of being wrong with its text."""

from __future__ import annotations

import json
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import CheckFailedError
from toolkit.views.scales.float32 import SMALLEST_NORMAL, round_up, scale_of
from toolkit.views.scales.scale_file import decode_scales, encode_scales

K = "model.layers.0.self_attn.k_scale"
V = "model.layers.0.self_attn.v_scale"
FILE = "model-kvscales.safetensors"


def shard(header: object, payload: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + payload


def entry(dtype: str = "F32", shape: object = (), begin: int = 0, end: int = 4) -> dict[str, object]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}  # type: ignore[call-overload]


def first_line(data: bytes) -> str:
    with pytest.raises(CheckFailedError) as caught:
        decode_scales(data, FILE)
    return str(caught.value).splitlines()[0]


def test_bytes_are_those_of_the_public_format() -> None:
    data = encode_scales({V: 2.0, K: 0.5})
    (length,) = struct.unpack("<Q", data[:8])
    text = data[8 : 8 + length]
    assert length % 8 == 0
    assert text.rstrip(b" ") == (
        b'{"__metadata__":{"format":"pt","qsa_kv_scale_contract":"e4m3fn(x/scale), max_abs/448"},'
        b'"model.layers.0.self_attn.k_scale":{"data_offsets":[0,4],"dtype":"F32","shape":[]},'
        b'"model.layers.0.self_attn.v_scale":{"data_offsets":[4,8],"dtype":"F32","shape":[]}}'
    )
    assert data[8 + length :] == struct.pack("<2f", 0.5, 2.0)


def test_the_format_s_own_reader_agrees(tmp_path) -> None:
    from safetensors import safe_open

    path = tmp_path / FILE
    path.write_bytes(encode_scales({V: 2.0, K: 0.5}))
    with safe_open(path, framework="np") as opened:
        assert {name: (opened.get_tensor(name).shape, float(opened.get_tensor(name))) for name in opened.keys()} == {  # noqa: SIM118
            K: ((), 0.5),
            V: ((), 2.0),
        }


@given(
    st.dictionaries(
        st.text("abc.é_", min_size=1), st.floats(2.0**-126, 2.0**127, width=32, allow_subnormal=False), max_size=9
    )
)
def test_reading_gives_what_was_written(scales: dict[str, float]) -> None:
    assert decode_scales(encode_scales(scales), FILE) == scales


def test_a_shape_of_one_is_read_as_well() -> None:
    assert decode_scales(shard({K: entry(shape=[1])}, struct.pack("<f", 0.5)), FILE) == {K: 0.5}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (math.nan, "is not finite: nan"),
        (math.inf, "is not finite: inf"),
        (-1.0, "is not greater than zero: -1"),
        (0.0, "is not greater than zero: 0"),
        (1e-40, "is denormal: 9.99995e-41, which a kernel may flush to zero"),
    ],
)
def test_a_value_that_is_no_scale(value: float, reason: str) -> None:
    assert first_line(shard({K: entry()}, struct.pack("<f", value))) == f"{FILE}: {K} {reason}"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"1234", "truncated: 4 bytes, even the header's length needs 8"),
        (struct.pack("<Q", 1) + b"{", "header too small: 1 byte"),
        (struct.pack("<Q", 1 << 30), "header too big: 1073741824 bytes, 1048576 is the limit of a scale shard"),
        (struct.pack("<Q", 90) + b"{}", "truncated: the header needs 98 bytes, the file has 10"),
        (
            shard(b"{]", b""),
            "its header: wrong JSON at line 1, column 2: Expecting property name enclosed in double quotes",
        ),
        (shard(b'{"a":1,"a":2}', b""), "its header: duplicate tensor name 'a'"),
        (shard({K: entry("F16", end=2)}, b"\0\0"), f"{K} is F16, a KV scale is F32"),
        (shard({K: entry(shape=[2], end=8)}, bytes(8)), f"{K} has the shape [2], a KV scale is one number ([] or [1])"),
        (shard({K: entry(end=8)}, bytes(8)), f"{K}: data_offsets [0, 8] do not span 4 bytes"),
        (shard({f"\x1b{K}": entry()}, bytes(4)), f"'\\x1b{K}' is no name: it holds what cannot be printed"),
        (shard({K: 3}, b""), f"{K}: a tensor needs dtype, shape and data_offsets"),
        (
            shard({K: entry(), V: entry()}, bytes(8)),
            "its 2 scalars do not fill its 8 bytes of data exactly once",
        ),
        (shard({K: entry()}, bytes(12)), "its 1 scalar does not fill its 12 bytes of data exactly once"),
    ],
)
def test_a_file_that_is_no_scale_shard(data: bytes, reason: str) -> None:
    assert first_line(data) == f"{FILE}: {reason}"


def test_every_fault_is_listed() -> None:
    data = shard({K: entry(), V: entry(begin=4, end=8)}, struct.pack("<2f", -1.0, math.nan))
    with pytest.raises(CheckFailedError) as caught:
        decode_scales(data, FILE)
    assert caught.value.what == f"{FILE}: {K} is not greater than zero: -1 (and 1 more fault)"
    assert [item.reason for item in caught.value.rejected] == [f"{V} is not finite: nan"]
    assert caught.value.exit_code == 5


@given(st.floats(0, 3.4e38))
def test_rounding_up_gives_the_next_fp32(value: float) -> None:
    import numpy as np

    rounded = round_up(value)
    assert float(np.float32(rounded)) == rounded
    assert rounded >= value
    assert rounded == 0 or float(np.nextafter(np.float32(rounded), np.float32(0))) < value


@given(st.floats(448 * SMALLEST_NORMAL, 1e30))
def test_the_largest_magnitude_fits_under_its_scale(max_abs: float) -> None:
    assert max_abs / scale_of(max_abs) <= 448.0
