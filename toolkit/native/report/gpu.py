"""The V100 in numbers, and how much of a kernel fits on one of its multiprocessors."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True)
class Gpu:
    """Limits of a multiprocessor (SM) and rates of the whole GPU.

    clock in Hz, dram in bytes/s, launch in seconds (of an empty kernel). Registers are given out by warp in units of
    `register_unit`, warps in fours (one for each partition), shared memory in bytes by `shared_unit`.
    """

    name: str
    multiprocessors: int
    clock: float
    dram: float
    launch: float
    registers: int
    register_unit: int
    shared: int
    shared_unit: int
    warps: int
    blocks: int
    partitions: int

    @property
    def tensor(self) -> float:
        """FP16 operations/s of the tensor cores: 128 fused multiply-adds a partition and cycle."""
        return 2 * 128 * self.partitions * self.multiprocessors * self.clock

    @property
    def fp32(self) -> float:
        """FP32 operations/s: 16 fused multiply-adds a partition and cycle."""
        return 2 * 16 * self.partitions * self.multiprocessors * self.clock


V100 = Gpu(
    name="V100 SXM2",
    multiprocessors=80,
    clock=1.53e9,
    dram=900e9,
    launch=2e-6,
    registers=65536,
    register_unit=256,
    shared=96 * 1024,
    shared_unit=256,
    warps=64,
    blocks=32,
    partitions=4,
)
"""Sources: NVIDIA's V100 white paper and data sheet, and the table of compute capability 7.0 in the CUDA C++ guide. The
launch time is a round number for small kernels in a graph."""


@dataclass(frozen=True)
class Occupancy:
    """What is on one SM at a time, and which limit keeps more away: warps, blocks, registers or shared memory."""

    blocks: int
    warps: int
    limit: str


def occupancy(gpu: Gpu, *, registers: int, shared: int, threads: int) -> Occupancy:
    """Blocks of `threads` threads, `registers` a thread and `shared` bytes a block that one SM holds at a time."""
    warps = ceil(threads / 32)
    granted = ceil(warps / gpu.partitions) * gpu.partitions
    of_a_warp = ceil(max(registers, 1) * 32 / gpu.register_unit) * gpu.register_unit
    by_registers = gpu.registers // of_a_warp // gpu.partitions * gpu.partitions // granted
    of_a_block = ceil(shared / gpu.shared_unit) * gpu.shared_unit
    limits = {
        "warps": gpu.warps // warps,
        "blocks": gpu.blocks,
        "registers": by_registers,
        "shared memory": gpu.shared // of_a_block if of_a_block else gpu.blocks,
    }
    limit = min(limits, key=lambda name: limits[name])
    return Occupancy(limits[limit], limits[limit] * warps, limit)
