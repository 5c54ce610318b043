"""What NVIDIA's management library says of the GPUs, through nvidia-ml-py (module pynvml)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from toolkit.machine.facts import Gpu, Link
from toolkit.machine.guard import CannotReadError

SIGNS = (Path("/dev/nvidiactl"), Path("/proc/driver/nvidia/version"), Path("/dev/dxg"))
"""Any of these is there where an NVIDIA driver is; the last is Windows' own, below WSL."""
PATHS = {0: "board", 10: "switch", 20: "switches", 30: "host-bridge", 40: "node", 50: "system"}
"""NVML_TOPOLOGY_* levels: where the paths of two GPUs meet."""


@dataclass(frozen=True)
class Board:
    """The machine's GPUs, visible or not."""

    gpus: tuple[Gpu, ...] = ()
    links: tuple[Link, ...] | None = ()
    """None where the library does not know about peer access."""
    gpu_bytes: Mapping[int, int] = field(default_factory=dict)
    """Bytes of GPU memory that a process holds, over all GPUs, by its PID."""


def read_board() -> Board:
    """All GPUs; an empty board where there is no NVIDIA driver. Raises CannotReadError where there is one."""
    if not any(sign.exists() for sign in SIGNS):
        return Board()
    try:
        import pynvml
    except ImportError as error:
        raise CannotReadError("nvidia-ml-py is not installed beside the toolkit") from error
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        gpus = tuple(_gpu(pynvml, index, handle) for index, handle in enumerate(handles))
    except pynvml.NVMLError as error:
        raise CannotReadError(f"the driver answers: {error}") from error
    return Board(gpus, _links(pynvml, handles), _gpu_bytes(pynvml, handles))


def _gpu(nvml: Any, index: int, handle: Any) -> Gpu:
    memory, reserved = _memory(nvml, handle)
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    name, uuid = nvml.nvmlDeviceGetName(handle), nvml.nvmlDeviceGetUUID(handle)
    node = _numa_node(str(nvml.nvmlDeviceGetPciInfo(handle).busId))
    capability = (int(major), int(minor))
    return Gpu(index, str(name), str(uuid), capability, int(memory.total), int(memory.free), node, reserved)


def _memory(nvml: Any, handle: Any) -> tuple[Any, int | None]:
    """Total and free bytes, and those that the driver reserves; None where driver (before R510) or package is older."""
    try:
        memory = nvml.nvmlDeviceGetMemoryInfo(handle, nvml.nvmlMemory_v2)
        return memory, int(memory.reserved)
    except (nvml.NVMLError, AttributeError, TypeError):
        return nvml.nvmlDeviceGetMemoryInfo(handle), None


def _numa_node(bus: str) -> int | None:
    """The memory node of a PCI device; NVML writes the domain with eight digits, the kernel with four."""
    try:
        node = int(Path(f"/sys/bus/pci/devices/{bus.lower()[-12:]}/numa_node").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def _links(nvml: Any, handles: list[Any]) -> tuple[Link, ...] | None:
    try:
        pairs = combinations(enumerate(handles), 2)
        return tuple(_link(nvml, first, second) for first, second in pairs)
    except (nvml.NVMLError, AttributeError):
        return None


def _link(nvml: Any, first: tuple[int, Any], second: tuple[int, Any]) -> Link:
    def has(capability: int) -> bool:
        return bool(nvml.nvmlDeviceGetP2PStatus(first[1], second[1], capability) == nvml.NVML_P2P_STATUS_OK)

    level = nvml.nvmlDeviceGetTopologyCommonAncestor(first[1], second[1])
    path = "nvlink" if has(nvml.NVML_P2P_CAPS_INDEX_NVLINK) else PATHS.get(int(level), f"level {level}")
    peer = has(nvml.NVML_P2P_CAPS_INDEX_READ) and has(nvml.NVML_P2P_CAPS_INDEX_WRITE)
    return Link(first[0], second[0], path, peer)


def _gpu_bytes(nvml: Any, handles: list[Any]) -> dict[int, int]:
    found: dict[int, int] = {}
    for handle in handles:
        try:
            running = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
        except nvml.NVMLError:  # MIG, or a container that may not see processes
            continue
        for process in running:
            found[int(process.pid)] = found.get(int(process.pid), 0) + int(process.usedGpuMemory or 0)
    return found
