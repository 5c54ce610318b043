"""The container that carries device code inside the library: written here, read here and by kernels/host/container.cpp.

Layout, little endian, in the ELF section `.volta.device` (first byte at a multiple of 16):

    offset  size
    0       8      magic "VOLTADEV"
    8       4      format version (1)
    12      4      number of entries
    16      96*n   entries: name (40 bytes, NUL padded), kind u32, arch u32, offset u64, size u64, SHA-256 (32 bytes)
    ...            the blobs, each at a multiple of 16, at `offset` from the start of the container

Kinds: 0 manifest (JSON), 1 cubin, 2 PTX (its size counts the closing NUL).
Arch: 70 for sm_70 and compute_70, 0 for the manifest.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from toolkit.errors import CheckFailedError

SECTION = ".volta.device"
_MAGIC = b"VOLTADEV"
_VERSION = 1
_HEADER = struct.Struct("<8sII")
_ENTRY = struct.Struct("<40sIIQQ32s")
_ALIGN = 16


class Kind(IntEnum):
    """What an entry holds."""

    MANIFEST = 0
    CUBIN = 1
    PTX = 2


@dataclass(frozen=True)
class Entry:
    """One blob: a device object of the file `name`, or the manifest."""

    name: str
    kind: Kind
    arch: int
    data: bytes

    def sha256(self) -> str:
        """Digest of the blob, in hex."""
        return hashlib.sha256(self.data).hexdigest()


def pack(entries: Sequence[Entry]) -> bytes:
    """The container's bytes; the same entries give the same bytes. Raises ValueError for a name above 39 bytes."""
    position = _HEADER.size + _ENTRY.size * len(entries)
    table, body = bytearray(_HEADER.pack(_MAGIC, _VERSION, len(entries))), bytearray()
    for entry in entries:
        name = entry.name.encode("ascii")
        if len(name) >= 40:
            raise ValueError(f"name of a device file is longer than 39 bytes: {entry.name}")
        padding = -(position + len(body)) % _ALIGN
        body += bytes(padding)
        digest = hashlib.sha256(entry.data).digest()
        offset = position + len(body)
        table += _ENTRY.pack(name, entry.kind, entry.arch, offset, len(entry.data), digest)
        body += entry.data
    return bytes(table + body)


def unpack(data: bytes) -> tuple[Entry, ...]:
    """The entries of a container. Raises CheckFailedError if it is cut short, altered or of an unknown version."""
    if len(data) < _HEADER.size or data[:8] != _MAGIC:
        raise CheckFailedError("the device code container has no VOLTADEV header")
    _, version, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise CheckFailedError(
            f"the device code container has version {version}; this toolkit reads version {_VERSION}"
        )
    if len(data) < _HEADER.size + count * _ENTRY.size:
        raise CheckFailedError("the device code container is cut short")
    return tuple(_entry(data, _HEADER.size + index * _ENTRY.size) for index in range(count))


def _entry(data: bytes, position: int) -> Entry:
    raw, kind, arch, offset, size, digest = _ENTRY.unpack_from(data, position)
    name = raw.rstrip(b"\0").decode("ascii", errors="replace")
    blob = data[offset : offset + size]
    if len(blob) != size:
        raise CheckFailedError(f"the device code container is cut short inside {name}")
    if hashlib.sha256(blob).digest() != digest:
        raise CheckFailedError(f"the device code of {name} does not match its SHA-256")
    if kind not in set(Kind):
        raise CheckFailedError(f"the device code container holds {name} of unknown kind {kind}")
    return Entry(name=name, kind=Kind(kind), arch=arch, data=blob)
