"""vLLM's processes on this machine, and whatever else holds GPU memory, from /proc."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from toolkit.machine.facts import EngineProcess

PROC = Path("/proc")
TITLE = "VLLM::"
"""vLLM names its helper processes VLLM::EngineCore and VLLM::Worker."""
REAPERS = ("systemd", "init", "tini", "dumb-init", "docker-init", "containerd-shim", "catatonit")
"""Who takes over a process whose parent has died, besides process 1."""


def engine_processes(gpu_bytes: Mapping[int, int], root: Path = PROC) -> tuple[EngineProcess, ...]:
    """Every process that calls itself one of vLLM's helpers or holds GPU memory, by PID."""
    found = []
    for pid in sorted(int(entry.name) for entry in root.iterdir() if entry.name.isdecimal()):
        title = _title(root, pid)
        if title.startswith(TITLE) or pid in gpu_bytes:
            orphaned = title.startswith(TITLE) and _orphaned(root, pid)
            found.append(EngineProcess(pid, title[:120], orphaned, gpu_bytes.get(pid, 0), _replaced(root, pid)))
    return tuple(found)


def _orphaned(root: Path, pid: int) -> bool:
    """Whether the first ancestor that is no helper is one that takes over orphans."""
    seen = set()
    while pid > 1 and pid not in seen and _title(root, pid).startswith(TITLE):
        seen.add(pid)
        pid = _parent(root, pid)
    return pid <= 1 or _name(root, pid).startswith(REAPERS)


def _title(root: Path, pid: int) -> str:
    try:
        return (root / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def _name(root: Path, pid: int) -> str:
    try:
        return (root / str(pid) / "comm").read_text(errors="replace").strip()
    except OSError:
        return ""


def _parent(root: Path, pid: int) -> int:
    try:
        text = (root / str(pid) / "stat").read_text(errors="replace")
        return int(text[text.rindex(")") + 2 :].split()[1])  # the name before it may hold blanks and parentheses
    except (OSError, ValueError, IndexError):
        return 0


def _replaced(root: Path, pid: int) -> tuple[str, ...]:
    """Libraries that the process has mapped and that are not on disk any more; empty where that may not be read."""
    try:
        lines = (root / str(pid) / "maps").read_text(errors="replace").splitlines()
    except OSError:
        return ()
    paths = (line.split(maxsplit=5)[5] for line in lines if line.endswith(" (deleted)") and ".so" in line)
    return tuple(sorted({path.removesuffix(" (deleted)") for path in paths if path.startswith("/")}))
