"""One ELF file: sections, dynamic entries, symbol versions and names. Mostly a thin layer over pyelftools."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from toolkit.errors import CheckFailedError
from toolkit.storage.regular import read_regular

MAGIC = b"\x7fELF"
_SECTION = struct.Struct("<I20xQQ")  # name, then (past type, flags, address) offset and size


@dataclass(frozen=True)
class Image:
    """An ELF file by its bytes."""

    name: str
    data: bytes

    @classmethod
    def read(cls, path: Path) -> Image:
        """The ELF file at `path`. Raises CheckFailedError if it is something else."""
        try:
            return cls(str(path), read_regular(path)).checked()
        except OSError as error:
            raise CheckFailedError("the library cannot be read", where=str(path), why=str(error.strerror)) from error

    def checked(self) -> Image:
        """Itself, if it is an ELF file that can be parsed; CheckFailedError otherwise."""
        if self.data[: len(MAGIC)] != MAGIC:  # not startswith, which a memory map lacks
            raise CheckFailedError("not an ELF file", where=self.name)
        self.section("")  # walks the headers
        return self

    def section(self, name: str) -> bytes | None:
        """The contents of a section, or None if there is none of that name (64-bit little-endian files only).

        Read here, without pyelftools, so that an installation can describe its library with the standard library alone.
        """
        span = self.span(name)
        return None if span is None else self.data[span[0] : span[1]]

    def span(self, name: str) -> tuple[int, int] | None:
        """First byte of a section's contents and the byte behind them; None if there is none of that name.

        Raises CheckFailedError where the headers cannot be parsed.
        """
        try:
            table = [_SECTION.unpack_from(self.data, at) for at in self._section_headers()]
            names = table[struct.unpack_from("<H", self.data, 0x3E)[0]][1]
            for name_at, offset, size in table:
                begin = names + name_at
                if self.data[begin : begin + len(name) + 1] == name.encode() + b"\0":
                    return offset, offset + size
        except (struct.error, IndexError, ValueError) as error:
            raise CheckFailedError("the ELF file cannot be parsed", where=self.name, why=str(error)) from error
        return None

    def _section_headers(self) -> range:
        """Where each section header starts."""
        (first,) = struct.unpack_from("<Q", self.data, 0x28)
        size, count = struct.unpack_from("<HH", self.data, 0x3A)
        return range(first, first + size * count, size or 1)

    def sections(self, prefix: str = "") -> dict[str, bytes]:
        """Name and contents of each section whose name starts with `prefix` (sections without bytes left out)."""
        return {
            str(part.name): bytes(part.data())
            for part in self._elf.iter_sections()
            if part.name.startswith(prefix) and part["sh_type"] != "SHT_NOBITS"
        }

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """DT_NEEDED: the libraries that the loader must find."""
        return self._dynamic("DT_NEEDED", "needed")

    @cached_property
    def rpaths(self) -> tuple[str, ...]:
        """DT_RPATH entries."""
        return self._dynamic("DT_RPATH", "rpath")

    @cached_property
    def runpaths(self) -> tuple[str, ...]:
        """DT_RUNPATH entries."""
        return self._dynamic("DT_RUNPATH", "runpath")

    @cached_property
    def versions(self) -> frozenset[tuple[str, str]]:
        """(library, version) pairs that the loader must find, such as ("libc.so.6", "GLIBC_2.14")."""
        table = self._elf.get_section_by_name(".gnu.version_r")
        if table is None:
            return frozenset()
        return frozenset((str(lib.name), str(aux.name)) for lib, auxes in table.iter_versions() for aux in auxes)

    @cached_property
    def undefined(self) -> frozenset[str]:
        """Names of the dynamic symbols that other libraries must define."""
        return frozenset(name for name, section in self._symbols if section == "SHN_UNDEF")

    @cached_property
    def exported(self) -> frozenset[str]:
        """Names of the dynamic symbols that this file defines."""
        return frozenset(name for name, section in self._symbols if section != "SHN_UNDEF")

    @cached_property
    def _symbols(self) -> tuple[tuple[str, Any], ...]:
        table = self._elf.get_section_by_name(".dynsym")
        if table is None:
            return ()
        return tuple((str(item.name), item["st_shndx"]) for item in table.iter_symbols() if item.name)

    def _dynamic(self, tag: str, attribute: str) -> tuple[str, ...]:
        table = self._elf.get_section_by_name(".dynamic")
        if table is None:
            return ()
        return tuple(str(getattr(item, attribute)) for item in table.iter_tags(tag))

    @cached_property
    def _elf(self) -> Any:
        from elftools.common.exceptions import ELFError
        from elftools.elf.elffile import ELFFile

        try:
            return ELFFile(io.BytesIO(self.data))
        except (ELFError, ValueError, UnicodeDecodeError) as error:
            raise CheckFailedError("the ELF file cannot be parsed", where=self.name, why=str(error)) from error
