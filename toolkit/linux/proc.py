"""What /proc says of processes. `root` is /proc, or a folder like it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path("/proc")
MARKER = "VOLTA_RUN"
"""The environment variable that every process of a run carries; its value is the run's folder."""


@dataclass(frozen=True)
class Process:
    """One process as /proc/PID/stat shows it."""

    pid: int
    parent: int
    group: int
    session: int
    started: int
    """Clock ticks since boot; with the PID it names a process for as long as the machine is up."""
    dead: bool
    """A zombie: it runs no more and only waits to be reaped."""
    cpu_s: float
    """Seconds of processor time, user and system."""


@dataclass(frozen=True)
class Identity:
    """Names one process beyond the reuse of its PID and beyond a reboot."""

    pid: int
    started: int
    boot: str

    @property
    def alive(self) -> bool:
        """Whether that very process still runs."""
        process = read(self.pid) if self.boot == boot_id() else None
        return process is not None and process.started == self.started and not process.dead


def pids(root: Path = ROOT) -> list[int]:
    """Every process that this one can see, by its number."""
    return sorted(int(entry.name) for entry in root.iterdir() if entry.name.isdecimal())


def read(pid: int, root: Path = ROOT) -> Process | None:
    """One process, or None where there is none."""
    try:
        text = (root / str(pid) / "stat").read_bytes().decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(")") + 2 :].split()  # the name before it may hold blanks and parentheses
    ticks = int(fields[11]) + int(fields[12])
    return Process(
        pid=pid,
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        started=int(fields[19]),
        dead=fields[0] in "ZX",
        cpu_s=ticks / os.sysconf("SC_CLK_TCK"),
    )


def all_processes() -> list[Process]:
    """Every process that this one can see."""
    return [process for pid in pids() if (process := read(pid)) is not None]


def descendants(root: int, processes: Iterable[Process]) -> list[Process]:
    """Children of `root`, their children, and so on; parents before their children."""
    children: dict[int, list[Process]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process)
    found = list(children.get(root, ()))
    for process in found:
        found += children.get(process.pid, ())  # the loop reaches what it appends
    return found


def marker_of(pid: int) -> str | None:
    """The run folder in the process's environment, or None without one (or where it may not be read)."""
    prefix = f"{MARKER}=".encode()
    try:
        entries = (ROOT / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return None
    return next((os.fsdecode(entry[len(prefix) :]) for entry in entries if entry.startswith(prefix)), None)


def title(pid: int, root: Path = ROOT) -> str:
    """The command line, or the title that the process gave itself; empty where it is gone."""
    return _text(root / str(pid) / "cmdline").replace("\0", " ").strip()


def name(pid: int, root: Path = ROOT) -> str:
    """The program's name, 15 bytes at most; empty where it is gone."""
    return _text(root / str(pid) / "comm").strip()


def replaced_libraries(pid: int, root: Path = ROOT) -> tuple[str, ...]:
    """Libraries that the process has mapped and that are not on disk any more; empty where that may not be read."""
    lines = _text(root / str(pid) / "maps").splitlines()
    paths = (line.split(maxsplit=5)[5] for line in lines if line.endswith(" (deleted)") and ".so" in line)
    return tuple(sorted({path.removesuffix(" (deleted)") for path in paths if path.startswith("/")}))


def is_resource_tracker(pid: int) -> bool:
    """Whether this is the helper of Python's multiprocessing that removes shared memory when its users are dead."""
    return "multiprocessing.resource_tracker" in title(pid)


def bytes_read(pid: int) -> int:
    """Bytes that the process asked to read, from files and sockets; 0 where that may not be read."""
    lines = _text(ROOT / str(pid) / "io").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("rchar:", "read_bytes:")))


def identify(pid: int) -> Identity:
    """The identity of a running process.

    Raises:
        ProcessLookupError: there is no such process.
    """
    process = read(pid)
    if process is None:
        raise ProcessLookupError(pid)
    return Identity(pid, process.started, boot_id())


@cache
def boot_id() -> str:
    """This boot of the machine, so that a PID of an earlier one is never taken for ours."""
    return (ROOT / "sys/kernel/random/boot_id").read_text().strip()


def _text(path: Path) -> str:
    """A file of /proc; empty where its process is gone, or may not be looked into."""
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""
