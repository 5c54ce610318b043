"""One safetensors file's header, checked against the file, without reading a weight.

Format: 8 bytes, the header's length N as a little-endian unsigned integer; N bytes of JSON, an object that maps each
tensor's name to {dtype, shape, data_offsets: [begin, end]}; then the data, which offsets count from. The data has no
holes and no overlaps, and ends with the file (the format's own reader refuses anything else).
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from errno import errorcode
from math import prod
from pathlib import Path
from typing import Any

from toolkit.checkpoint.facts import TensorFacts
from toolkit.checkpoint.strict_json import StrictJsonError, parse_object
from toolkit.errors import Rejected

MAX_HEADER_BYTES = 100_000_000
"""The format's own limit."""

DTYPE_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8, "F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
}  # fmt: skip

_FIRST_READ = 1 << 17


@dataclass(frozen=True)
class Shard:
    """What one file holds, as far as its header is sound."""

    file: str
    num_bytes: int
    tensors: tuple[TensorFacts, ...]
    faults: tuple[Rejected, ...] = ()


class _HeaderError(Exception):
    """The file as a whole cannot be read."""


def read_shard(path: Path, file: str) -> Shard:
    """The tensors of the file at `path`, named `file` in faults; never raises for what the file holds."""
    try:
        header, data_bytes, num_bytes = _read_header(path)
    except _HeaderError as fault:
        return Shard(file, 0, (), (Rejected(file, str(fault)),))
    header.pop("__metadata__", None)
    tensors: list[TensorFacts] = []
    spans: list[tuple[int, int, str]] = []
    faults: list[Rejected] = []
    for name, entry in header.items():
        try:
            dtype, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
            if (end - begin) * 8 != prod(shape) * DTYPE_BITS[dtype] or not _sound(name, shape, begin, end, data_bytes):
                raise ValueError
        except (KeyError, TypeError, ValueError):
            faults.append(Rejected(file, _tensor_fault(name, entry, data_bytes)))
            continue
        tensors.append(TensorFacts(name, dtype, tuple(shape), end - begin, file))
        spans.append((begin, end, name))
    if not faults:
        faults = [Rejected(file, text) for text in _layout_faults(spans, data_bytes)]
    return Shard(file, num_bytes, tuple(tensors), tuple(faults))


def _read_header(path: Path) -> tuple[dict[str, Any], int, int]:
    """The header, the bytes of data that follow it, and the file's length."""
    try:
        # A pipe or a device in a weight's place must not block the plan.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise _HeaderError(open_fault(error)) from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _HeaderError("not a file")
        start = os.pread(descriptor, _FIRST_READ, 0)
        length = _header_length(start, status.st_size)
        text = start[8 : 8 + length]
        while len(text) < length:
            more = os.pread(descriptor, length - len(text), 8 + len(text))
            if not more:
                raise _HeaderError("the file became shorter while it was read")
            text += more
    except OSError as error:
        raise _HeaderError(open_fault(error)) from None
    finally:
        os.close(descriptor)
    try:
        return parse_object(text), status.st_size - 8 - length, status.st_size
    except StrictJsonError as fault:
        raise _HeaderError(f"its header: {fault}") from None


def _header_length(start: bytes, size: int) -> int:
    if size < 8:
        raise _HeaderError(f"truncated: {size} bytes, even the header's length needs 8")
    length = int.from_bytes(start[:8], "little")
    if length > MAX_HEADER_BYTES:
        raise _HeaderError(
            f"no safetensors file: it claims a header of {length} bytes, {MAX_HEADER_BYTES} is the limit"
        )
    if 8 + length > size:
        raise _HeaderError(f"truncated: the header needs {8 + length} bytes, the file has {size}")
    return length


def open_fault(error: OSError) -> str:
    """Why a file cannot be opened or read, as the end of a sentence."""
    reasons = {
        "ENOENT": "does not exist",
        "ELOOP": "a loop of symbolic links",
        "EACCES": "not readable: permission denied",
        "ENOTDIR": "does not exist: a part of its path is no folder",
        "EISDIR": "a folder, not a file",
        "ENXIO": "not a file",
    }
    return reasons.get(errorcode.get(error.errno or 0, ""), f"not readable: {error.strerror or error}")


def _sound(name: str, shape: Any, begin: Any, end: Any, data_bytes: int) -> bool:
    """Whether the types and ranges are right; the product alone would accept [-2, -3] or [2.0]."""
    return (
        type(begin) is int
        and type(end) is int
        and 0 <= begin <= end <= data_bytes
        and type(shape) is list
        and all(type(size) is int and size >= 0 for size in shape)
        and printable(name)
    )


def printable(name: str) -> bool:
    """Whether a name can be written as UTF-8 and holds no control characters."""
    return name.isprintable()


def _tensor_fault(name: str, entry: Any, data_bytes: int) -> str:
    """Why this entry is refused."""
    if not printable(name):
        return f"tensor name {name!r} holds unprintable characters"
    if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= entry.keys():
        return f"{name}: a tensor needs dtype, shape and data_offsets"
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPE_BITS or not _naturals(shape):
        return f"{name}: dtype {dtype!r} with shape {shape!r} is unknown"
    if not _naturals(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        return f"{name}: data_offsets {offsets!r} are no [begin, end]"
    return _size_fault(name, f"{dtype} {shape}", prod(shape) * DTYPE_BITS[dtype], offsets, data_bytes)


def _size_fault(name: str, kind: str, bits: int, offsets: list[int], data_bytes: int) -> str:
    begin, end = offsets
    if end > data_bytes:
        return f"truncated: {name} ends at byte {end} of the data, the file has {data_bytes}"
    return f"{name}: {kind} needs {bits / 8:g} bytes, its offsets span {end - begin}"


def _naturals(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _layout_faults(spans: list[tuple[int, int, str]], data_bytes: int) -> list[str]:
    """Overlaps, holes and trailing bytes."""
    faults = []
    position, before = 0, "the start"
    for begin, end, name in sorted(spans):
        if begin < position:
            faults.append(f"{name} overlaps {before}: it begins at byte {begin}, {before} ends at {position}")
        elif begin > position:
            faults.append(f"{begin - position} bytes between {before} and {name} belong to no tensor")
        position, before = max(position, end), name
    if position < data_bytes and not faults:
        faults.append(f"{data_bytes - position} bytes at the end belong to no tensor")
    return faults
