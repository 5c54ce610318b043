"""Compiling device code, and the operators around it, for the CPU."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
RENAMED = {
    "tensor.cpp": {f"aoti_torch_get_device_{what}": f"emulated_device_{what}" for what in ("type", "index")},
    "driver.cpp": {"launch_bytes": "launch_bytes_on_gpu"},
}
"""What a host file calls, or defines, by another name, so that emulator.cpp can take its place."""
FOR_OLD_SYSTEMS = "compat.cpp"


@dataclass(frozen=True)
class Maker:
    """Where kernels/, torch's package and CUDA's headers are, the compiler, and a folder for what is made."""

    kernels: Path
    torch: Path
    cuda: tuple[Path, ...]
    compiler: str
    folder: Path

    def operators(self) -> Path:
        """A library that defines torch.ops.volta, whose launches run on the CPU; made once for the same sources.

        Raises RuntimeError with the compiler's words.
        """
        sources = [path for path in sorted(self.kernels.rglob("*")) if path.suffix in {".cu", ".cuh", ".h", ".cpp"}]
        content = b"".join(path.read_bytes() for path in [*sources, *sorted(HERE.glob("*.*"))])
        library = self.folder / f"emulated-{hashlib.sha256(content).hexdigest()[:16]}.so"
        if not library.is_file():
            host = [path for path in sorted((self.kernels / "host").glob("*.cpp")) if path.name != FOR_OLD_SYSTEMS]
            jobs = [self._host(path) for path in host] + [self._device(path) for path in emulated(self.kernels)]
            self._make(library, jobs, [str(self.torch / "lib" / "libtorch_cpu.so")])
        return library

    def faulty(self) -> Path:
        """The library of the emulator's own tests."""
        library = self.folder / "faulty.so"
        self._make(library, [self._device(HERE / "faulty.cu")], [])
        return library

    def _host(self, source: Path) -> list[str]:
        headers = [f"-I{folder}" for folder in (self.torch / "include", *self.cuda)]
        names = [f"-D{old}={new}" for old, new in RENAMED.get(source.name, {}).items()]
        return [str(source), "-DTORCH_TARGET_VERSION=0x020a000000000000", *headers, *names]

    def _device(self, source: Path) -> list[str]:
        cuda = ["-include", str(HERE / "device.h"), "-x", "c++", str(source)]
        return [f"-I{HERE}", f"-I{self.kernels / 'host'}", "-fsanitize=alignment", *cuda]

    def _make(self, library: Path, jobs: list[list[str]], libraries: list[str]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        jobs = [*jobs, [str(HERE / "emulator.cpp"), f"-I{HERE}", f"-I{self.kernels / 'host'}"]]
        shared = [self.compiler, "-std=c++17", "-O1", "-fPIC", "-ffp-contract=off", "-w", "-c"]
        objects = [f"{library}.{number}.o" for number in range(len(jobs))]
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            list(pool.map(_run, ([*shared, *job, "-o", made] for job, made in zip(jobs, objects, strict=True))))
        _run([self.compiler, "-shared", "-o", f"{library}.new", *objects, *libraries, "-ldl"])
        for made in objects:
            Path(made).unlink()
        Path(f"{library}.new").replace(library)


def emulated(kernels: Path) -> list[Path]:
    """Device files that a CPU compiler takes: those without PTX between the lines."""
    return [path for path in sorted((kernels / "cuda").glob("*.cu")) if "asm volatile" not in path.read_text("utf-8")]


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[:4000])
