"""The SM70 instruction set, as far as a static report needs it: opcode, mnemonic, and the pipe that executes it.

An instruction is 128 bits; bits 0-8 say the operation and bits 9-11 the form of its operands. NVIDIA does not document
the encoding. The numbers come from disassembling one word for each opcode with nvdisasm 12.8, whose own words for every
spelling that our kernels use are in tests/native/report/sass_samples.txt.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum


class Pipe(Enum):
    """What executes an instruction. The four partitions of an SM have a pipe of each kind, but share `memory`."""

    fma = "fma"
    """FP32, and integer multiplication."""
    alu = "alu"
    """Other integer arithmetic, logic, comparison, moves."""
    fp16 = "fp16"
    """Pairs of FP16, and conversion from FP16."""
    fp64 = "fp64"
    """FP64."""
    xu = "xu"
    """Transcendental functions and conversions."""
    tensor = "tensor"
    """Tensor cores."""
    memory = "memory"
    """Global, local and shared memory, and shuffles."""
    control = "control"
    """Branches, barriers, and what else only takes an issue slot."""


_BY_PIPE = {
    Pipe.fma: "FMUL 020, FADD 021, FSWZADD 022, FFMA 023, IMAD 024 025, IDP 026",
    Pipe.alu: (
        "MOV 002, P2R 003, R2P 004, CS2R 005, VOTE 006, SEL 007, FSEL 008, FMNMX 009, FSET 00a, FSETP 00b, "
        "ISETP 00c, IADD3 010, LEA 011, LOP3 012, IABS 013, VABSDIFF 014, VABSDIFF4 015, PRMT 016, "
        "SHF 019, SGXT 01a, BMSK 01b, PLOP3 01c 01d 01e 01f, FCHK 102"
    ),
    Pipe.fp16: "HADD2 030, HFMA2 031, HMUL2 032, HSET2 033, HSETP2 034",
    Pipe.fp64: "DMUL 028, DADD 029, DSETP 02a, DFMA 02b",
    Pipe.xu: "FLO 100, BREV 101, F2F 104 110, F2I 105 111, I2F 106 112, MUFU 108, POPC 109",
    Pipe.tensor: "HMMA 036",
    Pipe.memory: (
        "LD 180, LDG 181, LDC 182, LDL 183, LDS 184, ST 185, STG 186, STL 187, STS 188, SHFL 189, "
        "ATOM 18a 18b, ATOMS 18c 18d, RED 18e, MATCH 1a1, ATOMG 1a8 1a9"
    ),
    Pipe.control: (
        "NOP 118, S2R 119, DEPBAR 11a, B2R 11c, BAR 11d, BSYNC 141, BREAK 142, CALL 143 144, BSSY 145, "
        "YIELD 146, BRA 147, WARPSYNC 148, BRX 149, JMP 14a, JMX 14b, EXIT 14d, LEPC 14e, RET 150, "
        "RPCMOV 152 153 154, BMOV 155 156 157, KILL 15b, BPT 15c, NANOSLEEP 15d, CCTL 18f, MEMBAR 192, "
        "QSPC 1aa, ERRBAR 1ab, GETLMEMBASE 1c0"
    ),
}


def _table() -> Iterator[tuple[int, tuple[str, Pipe]]]:
    for pipe, text in _BY_PIPE.items():
        for entry in text.split(", "):
            mnemonic, *opcodes = entry.split()
            yield from ((int(opcode, 16), (mnemonic, pipe)) for opcode in opcodes)


OPCODES = dict(_table())
"""Bits 0-8 of an instruction to its mnemonic, without modifiers, and its pipe."""

SIZED = frozenset({"LD", "LDG", "LDC", "LDL", "LDS", "ST", "STG", "STL", "STS"})
"""Instructions whose bits 73-75 say how many bytes a thread moves: 1, 1, 2, 2, 4, 8, 16."""
