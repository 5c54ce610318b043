"""Compiling one CUDA C++ file with NVRTC, without a CUDA toolkit and without a GPU."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import CheckFailedError

_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)

_NOTICE = "nvrtc: warning: Architectures prior to"  # SM70's age is the reason for this project


@dataclass(frozen=True)
class DeviceObject:
    """What one source file compiles to: an sm_70 cubin and compute_70 PTX (NUL-terminated, as the driver wants it)."""

    cubin: bytes
    ptx: bytes


class Compiler:
    """NVRTC, opened from the shared library of the nvidia-cuda-nvrtc-cu12 package.

    library:  path of libnvrtc.so.12 (its libnvrtc-builtins must lie beside it).
    includes: folders for `#include <...>`: CUDA runtime and CCCL headers, then ours.
    """

    def __init__(self, library: Path, includes: Sequence[Path]) -> None:
        builtins = next(library.parent.glob("libnvrtc-builtins.so.*"), None)
        if builtins is not None:  # opened first, so that NVRTC finds it without a search path
            ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
        self._nvrtc = ctypes.CDLL(str(library))
        self._nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        self._includes = tuple(includes)

    def version(self) -> str:
        """The compiler's version, such as 12.8."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check("version", self._nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
        return f"{major.value}.{minor.value}"

    def compile(self, source: Path, shown_as: str) -> DeviceObject:
        """Compile a file for SM70. `shown_as` is its name in messages and in the output (no private path).

        Raises CheckFailedError with the compiler's own words, file and line first.
        """
        cubin = self._compile(source, shown_as, "sm_70", "CUBIN")
        ptx = self._compile(source, shown_as, "compute_70", "PTX")
        return DeviceObject(cubin=cubin, ptx=ptx)

    def _compile(self, source: Path, shown_as: str, arch: str, kind: str) -> bytes:
        text = source.read_text(encoding="utf-8")
        program = ctypes.c_void_p()
        status = self._nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), shown_as.encode(), 0, None, None)
        self._check("create", status)
        try:
            options = [f"--gpu-architecture={arch}", "--std=c++17", "-default-device"]
            options += [f"--include-path={folder}" for folder in (source.parent, *self._includes)]
            array = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            if self._nvrtc.nvrtcCompileProgram(program, len(options), array) != 0:
                log = self._read(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
                raise compile_error(shown_as, arch, log)
            return self._read(program, kind)
        finally:
            self._nvrtc.nvrtcDestroyProgram(ctypes.byref(program))

    def _read(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(what, getattr(self._nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
        buffer = ctypes.create_string_buffer(size.value)
        self._check(what, getattr(self._nvrtc, f"nvrtcGet{what}")(program, buffer))
        return buffer.raw

    def _check(self, step: str, status: int) -> None:
        if status != 0:
            words = self._nvrtc.nvrtcGetErrorString(status).decode()
            raise CheckFailedError(f"NVRTC failed at {step}: {words}")


def compile_error(shown_as: str, arch: str, log: str) -> CheckFailedError:
    """The error of a file that does not compile: first error line first, the whole log as the reason."""
    log = "\n".join(line for line in log.splitlines() if not line.startswith(_NOTICE))
    first = next((line for line in log.splitlines() if "error" in line), log.strip().splitlines()[0] if log else "")
    return CheckFailedError(f"{first.strip()} [{arch}]", where=shown_as, why=log.strip())


def dependencies(source: Path, folders: Sequence[Path]) -> tuple[Path, ...]:
    """Every file that `source` includes with quotes, directly or not, in the order found.

    Conditions are ignored: a header behind a false `#if` counts too, which costs a needless compile at worst.
    """
    found: list[Path] = []
    queue = [source]
    while queue:
        current = queue.pop()
        for name in _INCLUDE.findall(current.read_text(encoding="utf-8")):
            for folder in (current.parent, *folders):
                header = (folder / name).resolve()
                if header.is_file() and header not in found:
                    found.append(header)
                    queue.append(header)
                    break
    return tuple(found)
