"""The device compiler and the headers: from the running environment, or fetched once into the user's cache."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import CheckFailedError

_PIN = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Toolchain:
    """Where the pieces are: NVRTC, the CUDA header folders, and the torch package."""

    nvrtc: Path
    includes: tuple[Path, ...]
    torch: Path


def find(root: Path, cache: Path) -> Toolchain:
    """The toolchain for the checkout at `root`; packages that the environment lacks are put under `cache`.

    Raises CheckFailedError when torch is missing or the packages cannot be fetched.
    """
    pins = root / "kernels" / "toolchain.txt"
    versions = dict(_PIN.findall(pins.read_text("utf-8")))
    site = _installed(versions) or _fetched(pins, cache / f"nvrtc-{versions['nvidia-cuda-nvrtc-cu12']}")
    nvidia = site / "nvidia"
    return Toolchain(
        nvrtc=nvidia / "cuda_nvrtc" / "lib" / "libnvrtc.so.12",
        includes=(nvidia / "cuda_runtime" / "include", nvidia / "cuda_cccl" / "include"),
        torch=torch_package(),
    )


def host_compiler() -> str | None:
    """The C++ compiler that CMake will take: the one in CXX, or the system's; None if there is none."""
    candidates = (os.environ.get("CXX", ""), "c++", "g++", "clang++")
    return next((found for name in candidates if name and (found := shutil.which(name.split()[0]))), None)


def torch_package() -> Path:
    """The folder of the installed torch, found without importing it; CheckFailedError where there is none."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise CheckFailedError(
            "torch is not installed in this environment",
            why="the native library is compiled against torch's stable ABI headers",
            fix="pip install torch==2.10.0, or any later torch",
        )
    return Path(spec.origin).resolve().parent


def _installed(versions: dict[str, str]) -> Path | None:
    """The site folder that holds all the pinned packages, or None."""
    sites = set()
    for name, version in versions.items():
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            return None
        if found.version != version:
            return None
        sites.add(Path(str(found.locate_file(""))).resolve())
    return sites.pop() if len(sites) == 1 else None


def _fetched(pins: Path, folder: Path) -> Path:
    """Install the pinned packages into `folder`, built aside and published by one rename."""
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
        command += ["--only-binary=:all:", "--no-compile", "--target", str(aside), "-r", str(pins)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CheckFailedError(
                "the device compiler could not be fetched from the package index",
                where=str(pins),
                why=done.stderr.strip(),
                fix=f"pip install --require-hashes --no-deps -r {pins}",
            )
        _publish(aside, folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return folder


def _publish(aside: Path, folder: Path) -> None:
    try:
        os.rename(aside, folder)  # noqa: PTH104 - os.rename never replaces a folder that another builder published
    except OSError:
        if not folder.is_dir():
            raise
