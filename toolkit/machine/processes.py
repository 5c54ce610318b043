"""vLLM's processes on this machine, and whatever else holds GPU memory, from /proc."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from toolkit.linux import proc
from toolkit.machine.facts import EngineProcess

TITLE = "VLLM::"
"""vLLM names its helper processes VLLM::EngineCore and VLLM::Worker."""
REAPERS = ("systemd", "init", "tini", "dumb-init", "docker-init", "containerd-shim", "catatonit")
"""Who takes over a process whose parent has died, besides process 1."""


def engine_processes(gpu_bytes: Mapping[int, int], root: Path = proc.ROOT) -> tuple[EngineProcess, ...]:
    """Every process that calls itself one of vLLM's helpers or holds GPU memory, by PID."""
    found = []
    for pid in proc.pids(root):
        title = proc.title(pid, root)
        if title.startswith(TITLE) or pid in gpu_bytes:
            orphaned = title.startswith(TITLE) and _orphaned(root, pid)
            replaced = proc.replaced_libraries(pid, root)
            found.append(EngineProcess(pid, title[:120], orphaned, gpu_bytes.get(pid, 0), replaced))
    return tuple(found)


def _orphaned(root: Path, pid: int) -> bool:
    """Whether the first ancestor that is no helper is one that takes over orphans."""
    seen = set()
    while pid > 1 and pid not in seen and proc.title(pid, root).startswith(TITLE):
        seen.add(pid)
        process = proc.read(pid, root)
        pid = process.parent if process else 0
    return pid <= 1 or proc.name(pid, root).startswith(REAPERS)
