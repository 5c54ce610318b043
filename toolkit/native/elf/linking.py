"""What a library asks of others: the files that it is linked to, and the symbols that it defines and wants.

Read from its tables alone with the standard library, so that a gigabyte costs no more than its symbol table.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import CheckFailedError
from toolkit.storage.regular import open_regular

_SECTION = struct.Struct("<IIQQQQIIQQ")  # name, type, flags, address, offset, size, link, info, alignment, entry size
_SYMBOL = struct.Struct("<IBBHQQ")  # name, binding and kind, visibility, section, value, size
_ENTRY = struct.Struct("<qQ")  # tag, value
_STRINGS, _DYNAMIC, _SYMBOLS = 3, 6, 11
_NEEDED, _RPATH, _RUNPATH = 1, 15, 29
_WEAK = 2
_LARGEST_TABLE = 256 * 2**20
"""Bytes that no honest table of names exceeds; torch's largest has 20 MiB."""


@dataclass(frozen=True)
class Linking:
    """A library's ties.

    needed:   file names that the loader must find, such as libcudart.so.12.
    folders:  where it looks for them first: RPATH and RUNPATH, as they are written.
    defined:  names of the symbols that it offers.
    wanted:   names of those that another library must define; weak ones, which may stay open, left out.
    """

    needed: tuple[str, ...]
    folders: tuple[str, ...]
    defined: frozenset[bytes]
    wanted: frozenset[bytes]


@dataclass(frozen=True)
class _Section:
    kind: int
    offset: int
    size: int
    link: int


def linking(path: Path) -> Linking:
    """The ties of the library at `path` (64-bit little-endian ELF). Raises CheckFailedError if it is no such file."""
    try:
        with open_regular(path) as file:
            return _read(_Tables(file.fileno(), os.fstat(file.fileno()).st_size))
    except (OSError, struct.error, IndexError, ValueError) as error:
        raise CheckFailedError("the library cannot be read", where=str(path), why=str(error)) from error


class _Tables:
    """The sections of an open file, read one at a time."""

    def __init__(self, descriptor: int, size: int) -> None:
        self.descriptor, self.file_size = descriptor, size
        header = self._at(0, 64)
        if header[:6] != b"\x7fELF\x02\x01":
            raise ValueError("not a 64-bit little-endian ELF file")
        (first,) = struct.unpack_from("<Q", header, 0x28)
        size_of, count = struct.unpack_from("<HH", header, 0x3A)
        if size_of != _SECTION.size:
            raise ValueError(f"section headers of {size_of} bytes")
        table = self._at(first, size_of * count)
        self.sections = [_Section(s[1], s[4], s[5], s[6]) for s in _SECTION.iter_unpack(table)]

    def of_kind(self, kind: int) -> tuple[bytes, bytes] | None:
        """The first section of a kind, and the strings that it refers to; None without one."""
        section = next((section for section in self.sections if section.kind == kind), None)
        if section is None:
            return None
        strings = self.sections[section.link]
        if strings.kind != _STRINGS:
            raise ValueError("a table refers to no names")
        return self._at(section.offset, section.size), self._at(strings.offset, strings.size)

    def _at(self, offset: int, size: int) -> bytes:
        if size > _LARGEST_TABLE or offset + size > self.file_size:
            raise ValueError("a table lies outside the file")
        return os.pread(self.descriptor, size, offset)


def _read(tables: _Tables) -> Linking:
    needed, folders = [], []
    entries, strings = tables.of_kind(_DYNAMIC) or (b"", b"")
    for tag, value in _ENTRY.iter_unpack(entries):
        if tag == _NEEDED:
            needed.append(_name(strings, value).decode(errors="replace"))
        elif tag in (_RPATH, _RUNPATH):
            folders += _name(strings, value).decode(errors="replace").split(":")
    defined, wanted = set(), set()
    symbols, strings = tables.of_kind(_SYMBOLS) or (b"", b"")
    for name, binding, _, section, _, _ in _SYMBOL.iter_unpack(symbols):
        if section:
            defined.add(_name(strings, name))
        elif name and binding >> 4 != _WEAK:
            wanted.add(_name(strings, name))
    return Linking(tuple(needed), tuple(folder for folder in folders if folder), frozenset(defined), frozenset(wanted))


def _name(strings: bytes, at: int) -> bytes:
    return strings[at : strings.index(b"\0", at)]
