"""Facts about a machine, as data; probing is elsewhere, so a recorded machine can stand in for this one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Gpu:
    """One visible GPU."""

    index: int
    name: str
    uuid: str
    compute_capability: tuple[int, int]
    memory_bytes: int
    free_bytes: int


@dataclass(frozen=True)
class MachineFacts:
    """The machine that a plan is checked against."""

    architecture: str
    """`x86_64`, ..."""
    cpu_count: int
    """Cores that this process may use."""
    cpu_flags: frozenset[str]
    """Instruction sets by the kernel's names, such as avx2 or avx512f."""
    memory_bytes: int
    available_bytes: int
    python: tuple[int, int, int]
    executable: str
    """The interpreter that runs the toolkit."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Distribution name to version, of those that matter to serving."""
    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    """The NVIDIA driver's version; None without one."""
    busy_ports: frozenset[int] = frozenset()
    """Of the ports that were asked about, those that something listens on."""
    unusable_hosts: Mapping[str, str] = field(default_factory=dict)
    """Of the hosts that were asked about, those on which this machine cannot listen at all, each with the reason."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The calling shell's VLLM_* variables, which name switches of the public fork."""
