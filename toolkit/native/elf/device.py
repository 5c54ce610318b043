"""Device code inside an ELF file: our container, or the fat binaries that NVIDIA's compiler embeds.

A fat binary is a run of entries in the section `.nv_fatbin` (or `__nv_relfatbin`): a 16-byte region header (magic
0xBA55ED50, version, header size, u64 size of what follows), then entries, each with a header (u16 kind: 1 PTX, 2 cubin;
u32 header size at 4; u64 payload size at 8; u32 architecture at 28) and its payload. Its maker does not document the
format; these fields are the ones that cuobjdump's listing follows.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import CheckFailedError
from toolkit.native import container
from toolkit.native.elf.image import MAGIC, Image
from toolkit.storage.regular import open_regular

_REGION = struct.Struct("<IHHQ")
_REGION_MAGIC = 0xBA55ED50
_ENTRY = struct.Struct("<HHIQ")
_ARCH_AT = 28
_FAT_SECTIONS = (".nv_fatbin", "__nv_relfatbin")
_CUDA_MACHINE = 190  # EM_CUDA


@dataclass(frozen=True)
class Target:
    """Device code for one architecture: how many objects, and how many bytes they take in the file."""

    kind: str
    arch: int
    objects: int
    size: int

    def __str__(self) -> str:
        return f"{'sm' if self.kind == 'cubin' else 'compute'}_{self.arch}"


def targets(image: Image) -> tuple[Target, ...]:
    """What a library carries, by kind and architecture, oldest first. Empty for a library without device code."""
    return _summed([*_from_container(image), *_from_fat_binaries(image)])


def targets_of_file(path: Path) -> tuple[Target, ...]:
    """The same for a file of any size, of which only headers are read. Raises CheckFailedError if it is no ELF file."""
    try:
        with open_regular(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            data.madvise(mmap.MADV_RANDOM)  # headers lie far apart: nothing between them is to be fetched
            return targets(Image(str(path), data).checked())  # type: ignore[arg-type]  # a map reads like bytes
    except (OSError, ValueError) as error:  # ValueError: an empty file
        raise CheckFailedError("the library cannot be read", where=str(path), why=str(error)) from error


def _summed(found: list[tuple[str, int, int]]) -> tuple[Target, ...]:
    totals: dict[tuple[str, int], tuple[int, int]] = {}
    for kind, arch, size in found:
        objects, total = totals.get((kind, arch), (0, 0))
        totals[kind, arch] = (objects + 1, total + size)
    return tuple(
        Target(kind, arch, *total) for (kind, arch), total in sorted(totals.items(), key=lambda item: item[0][1])
    )


def cubin_fault(data: bytes, arch: int) -> str | None:
    """Why these bytes are no usable cubin for sm_`arch`; None if they are: ELF, for CUDA and that GPU, with code."""
    if not data:
        return "it is empty"
    if not data.startswith(MAGIC):
        return "it is not an ELF file"
    try:
        image = Image("cubin", data).checked()
        machine, flags = struct.unpack_from("<H", data, 18)[0], struct.unpack_from("<I", data, 48)[0]
        code = sum(len(text) for text in image.sections(".text").values())
    except (CheckFailedError, struct.error):
        return "it cannot be parsed"
    if machine != _CUDA_MACHINE:
        return f"it is for machine {machine}, not for CUDA"
    if flags & 0xFF != arch:
        return f"it is for sm_{flags & 0xFF}"
    return None if code else "it holds no code"


def kernel_names(cubin: bytes) -> frozenset[str]:
    """Names of the kernels in a cubin: its code sections."""
    return frozenset(name.removeprefix(".text.") for name in Image("cubin", cubin).sections(".text."))


def _from_container(image: Image) -> list[tuple[str, int, int]]:
    data = image.section(container.SECTION)
    if data is None:
        return []
    try:
        entries = container.unpack(data)
    except CheckFailedError:
        return []  # a damaged container carries nothing that can be used
    return [
        (entry.kind.name.lower(), entry.arch, len(entry.data))
        for entry in entries
        if entry.kind is not container.Kind.MANIFEST
    ]


def _from_fat_binaries(image: Image) -> list[tuple[str, int, int]]:
    found = []
    data = image.data
    for name in _FAT_SECTIONS:
        first, last = image.span(name) or (0, 0)
        last = min(last, len(data))
        start = data.find(struct.pack("<I", _REGION_MAGIC), first, last)
        while 0 <= start <= last - _REGION.size:
            _, _, header, size = _REGION.unpack_from(data, start)
            end = min(start + header + size, last)
            found += _region(data, start + header, end)
            start = data.find(struct.pack("<I", _REGION_MAGIC), max(end, start + _REGION.size), last)
    return found


def _region(data: bytes, position: int, end: int) -> list[tuple[str, int, int]]:
    found = []
    while position + _ARCH_AT + 4 <= end:
        kind, _, header, size = _ENTRY.unpack_from(data, position)
        if kind not in {1, 2} or header < _ARCH_AT + 4:
            break
        (arch,) = struct.unpack_from("<I", data, position + _ARCH_AT)
        found.append(("ptx" if kind == 1 else "cubin", arch, size))
        position += header + size
    return found
