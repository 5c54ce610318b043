"""Who holds a TCP port."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from toolkit.linux import proc

LISTEN = "0A"
"""The kernel's code of the listening state in /proc/net/tcp."""


def holders(port: int, pids: Iterable[int]) -> tuple[int, ...]:
    """Which of these processes listen on the port, as far as we may look into them."""
    inodes = _listening(port)
    return tuple(pid for pid in pids if inodes & _sockets(pid))


def describe_holder(port: int) -> str:
    """The process that listens on the port, in words; says so where it is not ours to see."""
    found = holders(port, (process.pid for process in proc.all_processes()))
    names = [f"process {pid} ({proc.title(pid)[:80]})" for pid in found]
    return ", ".join(names) or "a process of another user or container"


def _listening(port: int) -> set[str]:
    inodes = set()
    for table in ("tcp", "tcp6"):
        with suppress(FileNotFoundError):  # no IPv6 on this machine
            for line in (proc.ROOT / "net" / table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                    inodes.add(fields[9])
    return inodes


def _sockets(pid: int) -> set[str]:
    return {link[len("socket:[") : -1] for link in _links(proc.ROOT / str(pid) / "fd") if link.startswith("socket:[")}


def _links(folder: Path) -> Iterator[str]:
    with suppress(OSError):  # another user's process, or one that just ended
        for entry in os.scandir(folder):
            with suppress(OSError):
                yield os.readlink(entry.path)  # noqa: PTH115  (a thousand of them: Path objects would dominate)
