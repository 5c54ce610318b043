"""What a cubin says about its kernels without being run: registers, barriers, shared memory, stack, code.

sm_70 cubins keep these in ELF fields: the register count in the top byte of a `.text.KERNEL` section's sh_info, the
number of barriers in bits 20-26 of its sh_flags, static shared memory as the size of `.nv.shared.KERNEL`, and stack
frames in `.nv.info`, a run of records (u8 format, u8 attribute, u16 size) of which FRAME_SIZE holds (symbol, bytes).
Their maker documents none of it; tests/native/report compares it with kernels whose facts follow from their text, and
with nvdisasm's listing where there is one.
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from typing import Any

from toolkit.errors import CheckFailedError

_TEXT = ".text."
_SIZED, _FRAME_SIZE = 4, 0x11


@dataclass(frozen=True)
class KernelCode:
    """One kernel of a cubin.

    registers:     32-bit registers a thread.
    barriers:      named barriers a block.
    static_shared: bytes of shared memory a block that the kernel itself declares.
    stack:         bytes of local memory a thread: spills, or arrays that could not be kept in registers.
    code:          its machine code, 16 bytes an instruction.
    """

    name: str
    registers: int
    barriers: int
    static_shared: int
    stack: int
    code: bytes


def kernels(cubin: bytes) -> tuple[KernelCode, ...]:
    """The kernels of a cubin, by name. Raises CheckFailedError if it cannot be parsed."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        elf = ELFFile(io.BytesIO(cubin))
        sections = {str(section.name): section for section in elf.iter_sections()}
        frames = _frames(sections)
        names = sorted(name.removeprefix(_TEXT) for name in sections if name.startswith(_TEXT))
        return tuple(_kernel(name, sections, frames.get(name, 0)) for name in names)
    except (ELFError, ValueError, struct.error) as error:
        raise CheckFailedError("the cubin cannot be parsed", why=str(error)) from error


def _kernel(name: str, sections: dict[str, Any], stack: int) -> KernelCode:
    text = sections[_TEXT + name]
    shared = sections.get(f".nv.shared.{name}")
    return KernelCode(
        name=name,
        registers=text["sh_info"] >> 24,
        barriers=text["sh_flags"] >> 20 & 0x7F,
        static_shared=0 if shared is None else int(shared["sh_size"]),
        stack=stack,
        code=bytes(text.data()),
    )


def _frames(sections: dict[str, Any]) -> dict[str, int]:
    """Stack frame in bytes by function."""
    data, symbols = sections[".nv.info"].data(), sections[".symtab"]
    frames, at = {}, 0
    while at + 4 <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form != _SIZED:
            continue
        if attribute == _FRAME_SIZE:
            symbol, frame = struct.unpack_from("<II", data, at)
            frames[str(symbols.get_symbol(symbol).name)] = frame
        at += size
    return frames
