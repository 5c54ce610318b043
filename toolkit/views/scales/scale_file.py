"""A scale shard: a small safetensors file that holds one FP32 scalar for each layer's K and V.

Written as the public packs are: 8 bytes of header length, a header with sorted keys in compact JSON padded with spaces
to a multiple of 8, then 4 bytes a scalar (shape []), in the order of the names. Readers accept shape [1] as well.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

from toolkit.checkpoint.faults import check_failed
from toolkit.checkpoint.strict_json import StrictJsonError, parse_object
from toolkit.counted import counted
from toolkit.errors import Rejected
from toolkit.views.scales.float32 import scale_fault

CONTRACT = {"format": "pt", "qsa_kv_scale_contract": "e4m3fn(x/scale), max_abs/448"}

_MAX_HEADER = 1 << 20  # a scale takes about 150 bytes there; more is no scale shard
_FIX = "take the scale pack anew from where it was published, or calibrate again"


def encode_scales(scales: Mapping[str, float]) -> bytes:
    """The file that holds these scales; each must be one that FP32 stores exactly (`float32.scale_of` makes such)."""
    header: dict[str, Any] = {"__metadata__": CONTRACT}
    for position, name in enumerate(sorted(scales)):
        header[name] = {"data_offsets": [4 * position, 4 * position + 4], "dtype": "F32", "shape": []}
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(struct.pack("<f", scales[name]) for name in sorted(scales))


def decode_scales(data: bytes, file: str) -> dict[str, float]:
    """The scales in a file's bytes; `file` names it. CheckFailedError lists everything that is wrong."""
    header, payload, fault = _split(data)
    if fault:
        raise check_failed([Rejected(file, fault)], where=file, fix=_FIX)
    header.pop("__metadata__", None)
    faults = [Rejected(file, text) for name, entry in header.items() if (text := _entry_fault(name, entry))]
    if not faults:
        faults = [Rejected(file, text) for text in _layout_faults(header, len(payload))]
    if faults:
        raise check_failed(faults, where=file, fix=_FIX)
    scales = {name: _value(entry, payload) for name, entry in header.items()}
    faults = [Rejected(file, f"{name} {text}") for name, value in scales.items() if (text := scale_fault(value))]
    if faults:
        raise check_failed(faults, where=file, fix=_FIX)
    return dict(sorted(scales.items()))


def _split(data: bytes) -> tuple[dict[str, Any], bytes, str]:
    """The header, the payload, and what is wrong with the file as a whole."""
    if len(data) < 8:
        return {}, b"", f"truncated: {counted(len(data), 'byte')}, even the header's length needs 8"
    length = struct.unpack("<Q", data[:8])[0]
    if length < 2:
        return {}, b"", f"header too small: {counted(length, 'byte')}"
    if length > _MAX_HEADER:
        return {}, b"", f"header too big: {length} bytes, {_MAX_HEADER} is the limit of a scale shard"
    if 8 + length > len(data):
        return {}, b"", f"truncated: the header needs {8 + length} bytes, the file has {len(data)}"
    try:
        return parse_object(data[8 : 8 + length]), data[8 + length :], ""
    except StrictJsonError as error:
        text = str(error).replace("duplicate key", "duplicate tensor name")
        return {}, b"", f"its header: {text}"


def _entry_fault(name: str, entry: Any) -> str | None:
    if not name.isprintable():
        return f"{name!r} is no name: it holds what cannot be printed"
    if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= entry.keys():
        return f"{name}: a tensor needs dtype, shape and data_offsets"
    if entry["dtype"] != "F32":
        return f"{name} is {entry['dtype']}, a KV scale is F32"
    if entry["shape"] not in ([], [1]):
        return f"{name} has the shape {entry['shape']}, a KV scale is one number ([] or [1])"
    offsets = entry["data_offsets"]
    whole = isinstance(offsets, list) and len(offsets) == 2 and all(type(item) is int for item in offsets)
    if not whole or offsets[0] < 0 or offsets[1] - offsets[0] != 4:
        return f"{name}: data_offsets {offsets!r} do not span 4 bytes"
    return None


def _layout_faults(header: Mapping[str, Any], num_bytes: int) -> list[str]:
    """The scalars must fill the data without holes, overlaps or a rest."""
    starts = sorted(entry["data_offsets"][0] for entry in header.values())
    if starts == list(range(0, num_bytes, 4)) and num_bytes == 4 * len(starts):
        return []
    fills = counted(len(starts), "scalar does not fill", "scalars do not fill")
    return [f"its {fills} its {counted(num_bytes, 'byte')} of data exactly once"]


def _value(entry: Mapping[str, Any], payload: bytes) -> float:
    return float(struct.unpack_from("<f", payload, entry["data_offsets"][0])[0])
