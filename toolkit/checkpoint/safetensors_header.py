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
from toolkit.counted import counted
from toolkit.errors import Rejected

MAX_HEADER_BYTES = 100_000_000
"""The format's own limit."""
MOST = 2**64 - 1
"""The largest size that the format's own reader reads."""

DTYPE_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8, "F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
}  # fmt: skip

_FIRST_READ = 1 << 14


@dataclass(frozen=True)
class Shard:
    """What one file holds, as far as its header is sound."""

    file: str
    num_bytes: int
    tensors: tuple[TensorFacts, ...]
    faults: tuple[Rejected, ...] = ()


@dataclass(frozen=True)
class _Header:
    """A parsed header and what surrounds it."""

    entries: dict[str, Any]
    plain_names: bool
    """No name can hold unprintable characters."""
    data_bytes: int
    file_bytes: int


class _HeaderError(Exception):
    """The file as a whole cannot be read."""


def read_shard(path: Path, file: str) -> Shard:
    """The tensors of the file at `path`, named `file` in faults; never raises for what the file holds.

    A checkpoint can have 300,000 tensors, so this loop spells out what it checks, and the reasons are found elsewhere.
    """
    try:
        header = _read_header(path)
    except _HeaderError as fault:
        return Shard(file, 0, (), (Rejected(file, str(fault)),))
    data_bytes, plain, bits_of = header.data_bytes, header.plain_names, DTYPE_BITS
    tensors: list[TensorFacts] = []
    faults: list[Rejected] = []
    position, contiguous = 0, True
    for name, entry in header.entries.items():
        try:
            dtype, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
            sound = (end - begin) * 8 == prod(shape) * bits_of[dtype] and 0 <= begin <= end <= data_bytes
            for size in (begin, end, *shape):  # the product alone would accept [-2, -3] or [2.0]
                sound = sound and type(size) is int and 0 <= size <= MOST
            sound = sound and type(shape) is list and (plain or name.isprintable())
        except (KeyError, TypeError, ValueError):
            sound = False
        if not sound:
            faults.append(Rejected(file, _tensor_fault(name, entry, data_bytes)))
            continue
        tensors.append(TensorFacts(name, dtype, tuple(shape), end - begin, file))
        contiguous = contiguous and begin == position
        position = end
    if not faults and not (contiguous and position == data_bytes):
        spans = [(*header.entries[tensor.name]["data_offsets"], tensor.name) for tensor in tensors]
        faults = [Rejected(file, text) for text in _layout_faults(spans, data_bytes)]
    return Shard(file, header.file_bytes, tuple(tensors), tuple(faults))


def _read_header(path: Path) -> _Header:
    try:
        # A pipe or a device in a weight's place must not block the plan.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise _HeaderError(open_fault(error)) from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _HeaderError("not a file")
        text = _header_text(descriptor, status.st_size)
    except OSError as error:
        raise _HeaderError(open_fault(error)) from None
    finally:
        os.close(descriptor)
    try:
        entries = parse_object(text)
    except StrictJsonError as fault:
        raise _HeaderError(f"its header: {fault}") from None
    entries.pop("__metadata__", None)
    # JSON allows no control character but DEL unescaped.
    plain = text.isascii() and b"\\" not in text and b"\x7f" not in text
    return _Header(entries, plain, status.st_size - 8 - len(text), status.st_size)


def _header_text(descriptor: int, size: int) -> bytes:
    start = os.pread(descriptor, _FIRST_READ, 0)
    length = _header_length(start, size)
    text = start[8 : 8 + length]
    while len(text) < length:
        more = os.pread(descriptor, length - len(text), 8 + len(text))
        if not more:
            raise _HeaderError("the file became shorter while it was read")
        text += more
    return text


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
    return isinstance(value, list) and all(type(item) is int and 0 <= item <= MOST for item in value)


def _layout_faults(spans: list[tuple[int, int, str]], data_bytes: int) -> list[str]:
    """Overlaps, holes and trailing bytes."""
    faults = []
    position, before = 0, "the start"
    for begin, end, name in sorted(spans):
        if begin < position:
            faults.append(f"{name} overlaps {before}: it begins at byte {begin}, {before} ends at {position}")
        elif begin > position:
            faults.append(f"{counted(begin - position, 'byte')} between {before} and {name}, belonging to no tensor")
        if end > position:
            position, before = end, name
    if position < data_bytes and not faults:
        faults.append(f"{counted(data_bytes - position, 'byte')} at the end, belonging to no tensor")
    return faults
