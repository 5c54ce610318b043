"""What a wheel may need from the machine that it is installed on."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Libraries that manylinux_2_28 promises, as far as an operator library has any business with them.
_SYSTEM = ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libgcc_s.so.1", "libstdc++.so.6")
_SYSTEM_LOADER = ("ld-linux-x86-64.so.2",)
_TORCH = ("libtorch.so", "libtorch_cpu.so", "libtorch_cuda.so", "libc10.so", "libc10_cuda.so", "libtorch_python.so")
_CUDA_12 = ("libcudart.so.12", "libcuda.so.1", "libcublas.so.12", "libcublasLt.so.12", "libnvrtc.so.12")


@dataclass(frozen=True)
class Policy:
    """Allowed libraries, highest symbol versions, and whether torch may be used through its stable ABI alone.

    ours: the wheel must hold our library, whole, and nothing that it does not declare.
    """

    needed: frozenset[str]
    ceilings: tuple[tuple[str, tuple[int, ...]], ...]
    ours: bool

    def too_new(self, version: str) -> str | None:
        """The ceiling that a symbol version such as GLIBC_2.34 exceeds, or None."""
        for prefix, ceiling in self.ceilings:
            found = re.fullmatch(rf"{prefix}_(\d+(?:\.\d+)*)", version)
            if found and tuple(int(part) for part in found.group(1).split(".")) > ceiling:
                return f"{prefix}_{'.'.join(str(part) for part in ceiling)}"
        return None


# The ceilings of manylinux_2_28, as auditwheel has them.
_CEILINGS = (("GLIBC", (2, 28)), ("GLIBCXX", (3, 4, 24)), ("CXXABI", (1, 3, 11)), ("GCC", (7, 0, 0)))


def for_wheel(name: str, tag: str) -> Policy:
    """The policy for a wheel: ours by its name; anyone's may need the glibc that its own tag promises."""
    if name == OUR_NAME:
        return OURS
    promised = re.search(r"manylinux_2_(\d+)_", tag)
    glibc = (2, int(promised.group(1))) if promised else (2, 28)
    return Policy(_ANYONES, (("GLIBC", glibc), *_CEILINGS[1:]), ours=False)


OUR_NAME = "volta_toolkit"
OURS = Policy(frozenset((*_SYSTEM, "libtorch.so", "libtorch_cpu.so")), _CEILINGS, ours=True)
_ANYONES = frozenset((*_SYSTEM, *_SYSTEM_LOADER, *_TORCH, *_CUDA_12))
