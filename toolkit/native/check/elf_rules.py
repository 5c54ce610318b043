"""Rules about one ELF member: search paths, libraries, symbol versions, torch's ABI, private paths."""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolkit.native.check.finding import Finding
from toolkit.native.check.policy import Policy
from toolkit.native.elf.image import Image

_TEXT_SECTIONS = (".dynstr", ".strtab", ".rodata", ".comment", ".debug", ".data", ".volta.device")
_PRIVATE = re.compile(
    rb"/(?:home|root|Users|tmp|work|workspace|build|builds|data|mnt|__w|project|src)/[\w.+-]+/[\w./+-]+"
)
_CXX_TORCH = re.compile(r"^_Z\w*?(?:3c10|2at|5torch|8caffe2)[A-Z0-9]")
_PYTHON = re.compile(r"^(?:_?Py|THP)[A-Z_]\w+")
# Functions of the stable ABI that torch 2.10 does not have yet (torch/csrc/stable/c/shim.h gives their versions).
_LATER_ABI = re.compile(
    r"^torch_(?:from_blob|dtype_float8_e8m0fnu|dtype_float4_e2m1fn_x2|tag_\w+|library_def_with_tags"
    r"|library_set_python_module|exception_get_what\w*)$"
)


def check(image: Image, policy: Policy) -> Iterator[Finding]:
    """All faults of one ELF member."""
    yield from _search_paths(image)
    yield from _needed(image, policy)
    yield from _versions(image, policy)
    yield from _private_paths(image)
    if policy.ours:
        yield from _stable_abi(image)


def _search_paths(image: Image) -> Iterator[Finding]:
    for tag, paths in (("RPATH", image.rpaths), ("RUNPATH", image.runpaths)):
        for path in paths:
            yield Finding(
                f"elf-{tag.lower()}",
                image.name,
                f"it has {tag} {path}",
                "link without a search path; torch has loaded its libraries before ours",
            )


def _needed(image: Image, policy: Policy) -> Iterator[Finding]:
    for library in image.needed:
        if library in policy.needed:
            continue
        message = f"it needs {library}, which no allowed package provides"
        fix = f"allowed: {', '.join(sorted(policy.needed))}"
        if re.fullmatch(r"lib(?:cudart|cublas|cublasLt|nvrtc)\.so\.13", library):
            message, fix = f"it needs {library}: CUDA 13 has no SM70", "a build with CUDA 12"
        yield Finding("elf-needed", image.name, message, fix)


def _versions(image: Image, policy: Policy) -> Iterator[Finding]:
    for library, version in sorted(image.versions):
        ceiling = policy.too_new(version)
        if ceiling is not None:
            yield Finding(
                "elf-versions",
                image.name,
                f"it needs {version} of {library}; the wheel's tag promises {ceiling} at most",
                "see kernels/host/compat.cpp, or build on an older system",
            )


def _private_paths(image: Image) -> Iterator[Finding]:
    found = {
        match.decode()
        for name, data in image.sections().items()
        if name.startswith(_TEXT_SECTIONS)
        for match in _PRIVATE.findall(data)
    }
    if found:
        first, *others = sorted(found)
        more = f" (and {len(others)} more)" if others else ""
        fix = "compile with -ffile-prefix-map, and strip"
        yield Finding("private-path", image.name, f"it holds a path of the build machine: {first}{more}", fix)


def _stable_abi(image: Image) -> Iterator[Finding]:
    for symbol in sorted(image.undefined):
        if _CXX_TORCH.match(symbol) or _PYTHON.match(symbol):
            message = f"it uses {symbol}, which is outside torch's stable ABI"
        elif _LATER_ABI.match(symbol):
            message = f"it uses {symbol}, which torch 2.10 does not have"
        else:
            continue
        yield Finding("stable-abi", image.name, message, "keep to torch/csrc/stable with TORCH_TARGET_VERSION 2.10")
