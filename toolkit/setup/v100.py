"""What engine=v100 needs of its environment beyond the versions: code for SM70 at every step, and no CUDA 13."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

ARCHITECTURE = "sm_70"
NCCL = "nvidia/nccl/lib/libnccl.so.2"
PTXAS = "triton/backends/nvidia/bin/ptxas"
# CUDA 12's wheels end in -cu12; the same names without a suffix came with CUDA 13, in versions of their own.
CUDA_13 = frozenset(
    f"nvidia-{name}"
    for name in (
        "cublas", "cuda-cupti", "cuda-nvrtc", "cuda-runtime", "cufft", "cufile", "curand", "cusolver", "cusparse",
        "nvjitlink", "nvtx",
    )
)  # fmt: skip
REINSTALL = "remove the environment and install it again"


def wrong(packages: Path) -> Iterator[str]:
    """A line for each thing that would not work on a V100, or would bring libraries that do not."""
    yield from torch_without_code()
    yield from cuda_13(packages)
    yield from assembler(packages)
    if not (packages / NCCL).is_file():
        yield f"NCCL is not there ({packages / NCCL}), and GPUs could not work together: {REINSTALL}"


def torch_without_code() -> Iterator[str]:
    """Torch's own kernels must hold code for SM70; needs no GPU."""
    try:
        if find_spec("torch") is None:
            return  # for its pin to say
        from torch import _C, __version__

        built_for = (_C._cuda_getArchFlags() or "").split()
    except Exception:  # noqa: BLE001 - whatever keeps torch from loading is told apart
        return
    if ARCHITECTURE not in built_for:
        held = " ".join(built_for) or "no GPU"
        yield f"torch {__version__} has code for {held}, not for {ARCHITECTURE}: {REINSTALL}"


def cuda_13(packages: Path) -> Iterator[str]:
    """Libraries of CUDA 13, whose compilers and kernels no longer know SM70, as another torch leaves them behind."""
    for name, version in sorted(
        (each.metadata["Name"] or "", each.version) for each in distributions(path=[str(packages)])
    ):
        if name.endswith("-cu13") or name in CUDA_13:
            yield f"{name} {version} is of CUDA 13, which has no code for {ARCHITECTURE}: pip uninstall {name}"
    for folder in sorted((packages / "nvidia").glob("cu13*")):
        yield f"{folder} is of CUDA 13, which has no code for {ARCHITECTURE}: remove it"


def assembler(packages: Path) -> Iterator[str]:
    """Triton's own ptxas must be there and know SM70."""
    ptxas = packages / PTXAS
    try:
        answer = subprocess.run([ptxas, "--help"], capture_output=True, text=True, check=False)
    except OSError as error:
        yield f"Triton's assembler does not run: {ptxas}: {error.strerror}: {REINSTALL}"
        return
    if f"'{ARCHITECTURE}'" not in answer.stdout:
        yield f"Triton's assembler does not know {ARCHITECTURE}: {ptxas}: {REINSTALL}"
