"""Damaged files against the format's own reader: what it refuses, we refuse, and nothing else is ever raised."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from checkpoint_files import header_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolkit.checkpoint.safetensors_header import read_shard

TENSORS = {"a.weight": ("F16", [2, 3]), "b": ("F32", []), "c": ("U8", [5]), "empty": ("F32", [0])}
HEADER = json.dumps(header_of(TENSORS)).encode()
FILE = len(HEADER).to_bytes(8, "little") + HEADER + bytes(21)


def library_takes(data: bytes) -> bool:
    safetensors = pytest.importorskip("safetensors")
    try:
        safetensors.deserialize(data)
    except Exception:  # noqa: BLE001 - whatever it says, it refuses
        return False
    return True


def ours(path: Path, data: bytes) -> tuple[str, ...]:
    path.write_bytes(data)
    return tuple(fault.reason for fault in read_shard(path, "f").faults)


def test_the_sound_file_is_taken(tmp_path: Path) -> None:
    assert library_takes(FILE)
    assert ours(tmp_path / "f", FILE) == ()


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=st.lists(st.tuples(st.integers(0, len(FILE) - 1), st.integers(0, 255)), min_size=1, max_size=3))
def test_changed_bytes(tmp_path: Path, edits: list[tuple[int, int]]) -> None:
    data = bytearray(FILE)
    for position, value in edits:
        data[position] = value
    if not library_takes(bytes(data)):
        assert ours(tmp_path / "f", bytes(data))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 20) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
OFFSETS = st.lists(st.integers(-1, 24), min_size=1, max_size=3) | JSON
DTYPES = st.sampled_from(["U8", "F16", "F4", "BOOL", "X"]) | JSON
ENTRY = st.fixed_dictionaries({"dtype": DTYPES, "shape": st.lists(st.integers(-1, 6), max_size=3) | JSON}) | JSON


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    header=st.dictionaries(st.text(max_size=4), ENTRY, max_size=3), offsets=st.lists(OFFSETS, min_size=3, max_size=3)
)
def test_any_header(tmp_path: Path, header: dict, offsets: list) -> None:
    for entry, span in zip(header.values(), offsets, strict=False):
        if isinstance(entry, dict):
            entry["data_offsets"] = span
    text = json.dumps(header).encode()
    data = len(text).to_bytes(8, "little") + text + bytes(12)
    if not library_takes(data):
        assert ours(tmp_path / "f", data)
