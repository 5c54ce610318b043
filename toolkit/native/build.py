"""Building the wheel that carries the native library. `invoke build` calls build_wheel and then the wheel checks."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit.errors import CheckFailedError
from toolkit.native.toolchain import Toolchain, find, host_compiler

WHEEL_TAG = "py3-none-manylinux_2_28_x86_64"
_SOURCES = ("kernels", "toolkit", "conf", "recipes", "pyproject.toml")
_CALL = (
    "import json, sys; from scikit_build_core.build import build_wheel; "
    "print(build_wheel(sys.argv[1], json.loads(sys.argv[2])))"
)


@dataclass(frozen=True)
class Revision:
    """What the sources were: commit (or `unknown` outside git), whether files differ from it, digest of kernels/."""

    commit: str
    dirty: bool
    kernels_sha256: str


def build_wheel(root: Path, output: Path, *, cache: Path, jobs: int = 0) -> Path:
    """Build dist/NAME-VERSION-py3-none-manylinux_2_28_x86_64.whl from the checkout at `root`; return its path.

    Compiled objects stay in root/build/native, so a second build compiles what changed. `jobs` 0: one a core.
    Two builds of the same sources with the same toolchain give the same bytes.
    Raises CheckFailedError with the compiler's words when something does not compile.
    """
    if importlib.util.find_spec("scikit_build_core") is None:
        raise CheckFailedError(
            "the build backend is not installed in this environment",
            why="scikit-build-core runs the compiler and writes the wheel",
            fix='pip install "scikit-build-core>=1.1,<2" cmake ninja',
        )
    if host_compiler() is None:
        raise CheckFailedError(
            "there is no C++ compiler on this machine",
            why="the host part of the native library is C++17",
            fix="apt-get install g++",
        )
    root, output, cache = root.resolve(), output.resolve(), cache.resolve()  # the compiler runs in other folders
    folder = root / "build" / "native"
    folder.mkdir(parents=True, exist_ok=True)
    output.mkdir(parents=True, exist_ok=True)
    stamp = folder / "stamp.json"
    _write_if_changed(stamp, json.dumps(_stamp(revision(root)), sort_keys=True))
    settings = _settings(find(root, cache), folder, stamp, jobs)
    command = [sys.executable, "-c", _CALL, str(output), json.dumps(settings)]
    environment = os.environ | {"SOURCE_DATE_EPOCH": "315532800"}  # 1980-01-01, the oldest date a zip can hold
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    (folder / "build.log").write_text(done.stdout + done.stderr, encoding="utf-8")
    if done.returncode != 0:
        raise CheckFailedError(
            "the native library did not build",
            where=str(folder / "build.log"),
            why=_compiler_words(done.stdout + done.stderr),
        )
    return output / done.stdout.strip().splitlines()[-1]


def revision(root: Path) -> Revision:
    """The revision of the checkout at `root`, as far as git knows it."""
    head = _git(root, "rev-parse", "HEAD")
    changed = _git(root, "status", "--porcelain", "--", *_SOURCES)
    return Revision(
        commit=head.strip() if head else "unknown", dirty=bool(changed), kernels_sha256=sources_digest(root / "kernels")
    )


def sources_digest(folder: Path) -> str:
    """SHA-256 over the names and contents of every source file below `folder`."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{path.relative_to(folder).as_posix()} {content}\n".encode())
    return digest.hexdigest()


def _stamp(revision: Revision) -> dict[str, Any]:
    return {"commit": revision.commit, "dirty": revision.dirty, "kernels_sha256": revision.kernels_sha256}


def _settings(toolchain: Toolchain, folder: Path, stamp: Path, jobs: int) -> dict[str, Any]:
    """Settings of the build backend: turn CMake on, and say where the toolchain is."""
    return {
        "wheel.cmake": "true",
        "wheel.tags": WHEEL_TAG,
        "build-dir": str(folder),
        "cmake.source-dir": "kernels",
        "cmake.build-type": "Release",
        "cmake.define.VOLTA_NVRTC": str(toolchain.nvrtc),
        "cmake.define.VOLTA_CUDA_INCLUDES": ";".join(str(path) for path in toolchain.includes),
        "cmake.define.VOLTA_TORCH": str(toolchain.torch),
        "cmake.define.VOLTA_STAMP": str(stamp),
        "build.tool-args": f"-j{jobs or len(os.sched_getaffinity(0))}",
    }


def _compiler_words(log: str) -> str:
    """The lines of a build log from the first failure on, without the build tool's own chatter."""
    lines = log.splitlines()
    start = next((number for number, line in enumerate(lines) if "FAILED:" in line or "CMake Error" in line), 0)
    return "\n".join(lines[start : start + 40])


def _git(root: Path, *arguments: str) -> str:
    try:
        command = ["git", "-C", str(root), *arguments]  # the user's own git, wherever it is
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


def _write_if_changed(path: Path, text: str) -> None:
    if not path.is_file() or path.read_text("utf-8") != text:
        path.write_text(text, encoding="utf-8")
