"""Reading a GGUF file's fields one after the other, never past its end."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Value type to struct code: u8 i8 u16 i16 u32 i32 f32 bool u64 i64 f64; 8 is a string, 9 an array."""
_STRING, _ARRAY = 8, 9


class GgufError(ValueError):
    """Why a file is no sound GGUF file, as the end of a sentence."""


class Cursor:
    """A position in little-endian data; everything that is read raises GgufError where the data does not hold it."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self.position = 0

    def take(self, size: int) -> memoryview:
        """The next `size` bytes."""
        end = self.position + size
        if end > len(self._data):
            raise GgufError(f"truncated: {end} bytes are needed, the file has {len(self._data)}")
        part = self._data[self.position : end]
        self.position = end
        return part

    def scalar(self, code: str) -> Any:
        """One number; `code` is struct's."""
        return self.scalars(code, 1)[0]

    def scalars(self, code: str, count: int) -> tuple[Any, ...]:
        """`count` numbers."""
        data = self.take(count * struct.calcsize(f"<{code}"))  # before unpacking: an absurd count is refused here
        return struct.unpack(f"<{count}{code}", data)

    def string(self) -> str:
        """A string: its length in bytes, then UTF-8."""
        start = self.position
        try:
            return str(self.take(self.scalar("Q")), "utf-8")
        except UnicodeDecodeError:
            raise GgufError(f"the string at byte {start} is no UTF-8") from None

    def value(self) -> Any:
        """A metadata value: its type, then itself; arrays hold numbers or strings."""
        kind = self.scalar("I")
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            return self._array(self.scalar("I"), self.scalar("Q"))
        return self.scalar(self._code(kind))

    def _array(self, kind: int, count: int) -> list[Any]:
        if kind == _STRING:
            self._expect(count * 8)
            read: Callable[[], str] = self.string
            return [read() for _ in range(count)]
        return list(self.scalars(self._code(kind), count))

    def _expect(self, size: int) -> None:
        """Refuse a count that the rest of the file cannot hold, before memory is taken for it."""
        position = self.position
        self.take(size)
        self.position = position

    def _code(self, kind: int) -> str:
        if kind not in _SCALARS:
            raise GgufError(f"unknown value type {kind} before byte {self.position}")
        return _SCALARS[kind]
