"""What the operating system allows and has: limits, shared memory, disks, memory nodes, the driver, containers."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from toolkit.machine.facts import NO_LIMIT, Docker
from toolkit.machine.guard import CannotReadError

LOADER_CACHE = Path("/etc/ld.so.cache")
LIBRARY_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/wsl/lib", "/usr/local/nvidia/lib64")
DOCKER_TIMEOUT_S = 5.0
STATUS = Path("/proc/self/status")
MODULE_VERSION = Path("/sys/module/nvidia/version")


def limit(kind: int) -> int:
    """A resource limit of this process, which its children inherit; NO_LIMIT for none."""
    soft, _ = resource.getrlimit(kind)
    return NO_LIMIT if soft == resource.RLIM_INFINITY else soft


def free_bytes(folder: Path) -> int:
    """Free bytes of the file system that a folder lies in, or will lie in once it is made."""
    return shutil.disk_usage(_nearest(folder)).free


def _nearest(folder: Path) -> Path:
    """The folder, or the nearest of those above it that is there."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


def elsewhere(folders: Iterable[Path], known: Collection[Path]) -> Iterator[Path]:
    """Those folders of which no known folder above them says how much is free: they lie on a disk of their own."""
    for folder in folders:
        above = [each for each in known if folder.is_relative_to(each)]
        closest = max(above, key=lambda each: len(each.parts), default=None)
        if closest is None or _nearest(closest).stat().st_dev != _nearest(folder).stat().st_dev:
            yield folder


def disks(folders: Iterable[Path]) -> dict[str, int]:
    """Free bytes for each folder."""
    return {str(folder): free_bytes(folder) for folder in folders}


def unwritable(folders: Mapping[str, Path]) -> dict[str, str]:
    """Of named folders those in which, or in whose nearest parent that is there, nothing can be made; with the reason.

    Nothing is written to find out.
    """
    faults = {use: _fault(folder) for use, folder in folders.items()}
    return {use: fault for use, fault in faults.items() if fault is not None}


def _fault(folder: Path) -> str | None:
    try:
        folder = _nearest(folder)
    except OSError as error:
        return f"{folder}: {error.strerror}"
    if not folder.is_dir():
        return f"{folder} is no folder"
    if os.access(folder, os.W_OK | os.X_OK):
        return None
    read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
    return f"{folder} is on a file system that is only read" if read_only else f"{folder} is not this user's to write"


def numa_nodes() -> int:
    """Memory nodes that this process may use."""
    lines = STATUS.read_text(encoding="utf-8", errors="replace").splitlines()
    text = next(line for line in lines if line.startswith("Mems_allowed_list:")).partition(":")[2].strip()
    spans = (part.partition("-") for part in text.split(","))
    return sum(int(last or first) - int(first) + 1 for first, _, last in spans)


def driver() -> str | None:
    """The NVIDIA kernel driver's version; None without one."""
    try:
        return MODULE_VERSION.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None


def driver_library() -> str | None:
    """The version of the libcuda that programs load, as its file is named; None without one.

    The loader's own cache says where it is; a container's `cuda-compat` shows up there too.
    """
    for path in _libcuda():
        match = re.fullmatch(r"libcuda\.so\.(\d+(?:\.\d+)+)", Path(os.path.realpath(path)).name)
        if match:
            return match[1]
    return None


def _libcuda() -> Iterable[str]:
    try:
        cached = re.findall(rb"(/[^\0]*/libcuda\.so\.1)\0", LOADER_CACHE.read_bytes())
    except OSError:
        cached = []
    yield from (os.fsdecode(path) for path in cached)
    yield from (f"{folder}/libcuda.so.1" for folder in LIBRARY_FOLDERS)


def docker() -> Docker | None:
    """The container engine; None where its command is not installed. Raises CannotReadError if it does not answer."""
    command = shutil.which("docker")
    if command is None:
        return None
    form = "{{.ServerVersion}} {{range $name, $_ := .Runtimes}}{{$name}} {{end}}"
    try:
        done = subprocess.run(
            [command, "info", "--format", form], capture_output=True, text=True, check=False, timeout=DOCKER_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotReadError(f"docker does not answer: {error}") from error
    words = done.stdout.split()
    if done.returncode or not words:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise CannotReadError(f"docker does not answer: {said[-1] if said else f'exit code {done.returncode}'}")
    return Docker(words[0], "nvidia" in words[1:])
