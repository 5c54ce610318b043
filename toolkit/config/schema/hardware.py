"""Group `hardware`: the machine that the plan is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional


@dataclass
class HardwareConfig:
    """What the plan may use; a plan can be made on a machine that has none of it."""

    name: str = "cpu"
    """The profile's name."""
    gpu: Optional[str] = None
    """The GPU's product name; null for none."""
    gpu_count: int = 0
    """GPUs that the engine may use."""
    gpu_memory_bytes: int = 0
    """Memory of one GPU in bytes."""
    compute_capability: Optional[str] = None
    """The GPU's compute capability, such as `7.0`."""
    interconnect: Optional[str] = None
    """`nvlink` or `pcie`."""
