"""How long a V100 takes for a kernel's declared work: the slowest of its parts, each at its own peak rate.

The model and its limits are in docs/report.md. Cycles are those of one SM for one warp's instruction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from toolkit.native.report.gpu import Gpu
from toolkit.native.report.shapes import Work
from toolkit.native.sass.decode import Instruction
from toolkit.native.sass.opcodes import Pipe
from toolkit.native.sass.path import Path

_PARTITION_CYCLES = {Pipe.fma: 2, Pipe.alu: 2, Pipe.fp16: 2, Pipe.fp64: 4, Pipe.xu: 8}
"""Cycles that a warp's instruction keeps a partition's pipe: 16 lanes, 8 for FP64, 4 for XU."""
_TENSOR_CYCLES = {"HMMA.F32": 2, "HMMA.F16": 4}
"""A warp's HMMA step multiplies and adds 256 (F32) or 512 (F16) pairs, 128 a partition and cycle."""
_TENSOR_OPERATIONS = {"HMMA.F32": 16, "HMMA.F16": 32}
"""Operations of an HMMA step by thread."""
_GLOBAL = frozenset({"LD", "LDG", "ST", "STG", "ATOM", "ATOMG", "RED"})
_THROUGH_L1 = _GLOBAL | {"LDL", "STL"}
_L1_BYTES, _SHARED_BYTES = 64, 128
"""Bytes a cycle of an SM: L1 filled from L2, and shared memory."""


@dataclass(frozen=True)
class Prediction:
    """Microseconds of each part, and of the whole: the largest. `roofline` is what the declared work alone allows."""

    parts: dict[str, float]
    roofline: float

    @property
    def limit(self) -> str:
        """The part that takes longest."""
        return max(self.parts, key=lambda name: self.parts[name])

    @property
    def microseconds(self) -> float:
        """The predicted time of one launch."""
        return self.parts[self.limit]


def predict(path: Path, work: Work, gpu: Gpu) -> Prediction:
    """The prediction for a kernel whose counted path is `path`."""
    cycles = _cycles(path.instructions, gpu)
    for loop, times in zip(path.loops, rounds(path, work), strict=True):
        for part, count in _cycles(loop.everything(), gpu).items():
            cycles[part] += count * times
    warps = ceil(work.blocks / gpu.multiprocessors) * ceil(work.threads / 32)  # on the SM that has most
    parts = {"dram": work.dram / gpu.dram * 1e6, "launch": gpu.launch * 1e6}
    parts |= {part: count * warps / gpu.clock * 1e6 for part, count in cycles.items()}
    roofline = max(work.dram / gpu.dram, work.fp32 / gpu.fp32, work.tensor / gpu.tensor) * 1e6
    return Prediction(parts, roofline)


def rounds(path: Path, work: Work) -> tuple[float, ...]:
    """How often a thread goes through each outermost loop: as declared, or as often as the declared work takes.

    Loops with tensor instructions do the declared `tensor` operations and the others are gone through once; where no
    loop has any, all are gone through equally often, until the declared `accessed` bytes are moved.
    """
    if work.rounds is not None:
        return (work.rounds,) * len(path.loops)
    measure = _tensor if any(_tensor(loop.everything()) for loop in path.loops) else _moved
    threads = work.blocks * work.threads
    wanted = (work.tensor if measure is _tensor else work.accessed) / threads - measure(path.instructions)
    a_round = sum(measure(loop.everything()) for loop in path.loops)
    times = max(0.0, wanted / a_round) if a_round else 1.0
    return tuple(times if measure(loop.everything()) else 1.0 for loop in path.loops)


def _moved(instructions: Iterable[Instruction]) -> int:
    return sum(item.width for item in instructions if item.operation in _GLOBAL)


def _tensor(instructions: Iterable[Instruction]) -> int:
    return sum(_TENSOR_OPERATIONS.get(item.mnemonic, 0) for item in instructions)


def _cycles(instructions: Iterable[Instruction], gpu: Gpu) -> dict[str, float]:
    """Cycles of an SM by part, for one warp."""
    cycles: dict[str, float] = defaultdict(float)
    for item in instructions:
        cycles["issue"] += 1 / gpu.partitions
        if item.pipe is Pipe.memory:
            rate = _L1_BYTES if item.operation in _THROUGH_L1 else _SHARED_BYTES
            cycles["memory"] += max(1, 32 * item.width // rate)
        elif item.pipe is Pipe.tensor:
            cycles["tensor"] += _TENSOR_CYCLES[item.mnemonic] / gpu.partitions
        elif item.pipe in _PARTITION_CYCLES:
            cycles[item.pipe.value] += _PARTITION_CYCLES[item.pipe] / gpu.partitions
    return cycles
