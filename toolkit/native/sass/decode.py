"""Reading SM70 machine code: what each instruction is, how many bytes it moves, and where it may jump."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from toolkit.errors import CheckFailedError
from toolkit.native.sass.opcodes import OPCODES, SIZED, Pipe

SIZE = 16
"""Bytes of an instruction."""
_BYTES = (1, 1, 2, 2, 4, 8, 16)
_TRUE = 7
_JUMPS = frozenset({"BRA", "CALL"})


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    address:     of its first byte in the kernel's code.
    mnemonic:    its name without modifiers, but with those that decide its cost: LDG.128, HMMA.F32.
    conditional: whether a predicate decides if it is executed.
    width:       bytes that it moves a thread (0 for instructions that move none).
    target:      address that a branch or call leads to; None for others and for computed ones.
    """

    address: int
    mnemonic: str
    pipe: Pipe
    conditional: bool
    width: int
    target: int | None

    @property
    def operation(self) -> str:
        """The mnemonic without any modifier."""
        return self.mnemonic.partition(".")[0]


def decode(code: bytes) -> tuple[Instruction, ...]:
    """The instructions of a kernel. Raises CheckFailedError at an opcode that is not in the table."""
    return tuple(_instructions(code))


def _instructions(code: bytes) -> Iterator[Instruction]:
    for address in range(0, len(code) - SIZE + 1, SIZE):
        word = int.from_bytes(code[address : address + SIZE], "little")
        name, pipe = OPCODES.get(word & 0x1FF, ("", Pipe.control))
        if not name:
            raise CheckFailedError(
                f"unknown instruction: opcode {word & 0x1FF:#05x}",
                where=f"address {address:#x}",
                fix="add it to toolkit/native/sass/opcodes.py; nvdisasm says its name",
            )
        width = _width(name, word)
        guard = word >> 12 & 0xF, (word >> 87 & 7 if name == "BRA" else _TRUE)
        yield Instruction(
            address=address,
            mnemonic=_named(name, word, width),
            pipe=pipe,
            conditional=guard != (_TRUE, _TRUE),
            width=width,
            target=address + SIZE + _offset(word) if name in _JUMPS and word & 0xFFF != 0x943 else None,
        )


def _width(name: str, word: int) -> int:
    if name in SIZED:
        return _BYTES[min(word >> 73 & 7, 6)]
    return 4 if name.startswith(("ATOM", "RED", "SHFL")) else 0


def _named(name: str, word: int, width: int) -> str:
    if name in SIZED:
        return f"{name}.{8 * width}"
    if name == "HMMA":
        return "HMMA.F32" if word >> 76 & 1 else "HMMA.F16"
    return name


def _offset(word: int) -> int:
    """The signed distance of a jump from the next instruction."""
    offset = word >> 32 & (1 << 50) - 1
    return offset - (1 << 50) if offset >> 49 else offset
