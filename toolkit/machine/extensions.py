"""Compiled libraries of installed packages that run on a GPU or link to torch, read from their tables alone.

torch, NVIDIA's own packages and Triton are left out: other facts speak of them. Of a library of any size only headers
and its symbol table are read, and the search ends after a few seconds with what it has.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from toolkit.errors import CheckFailedError
from toolkit.machine.facts import Extension, Extensions
from toolkit.machine.system import LOADER_CACHE
from toolkit.native.elf.device import targets_of_file
from toolkit.native.elf.linking import Linking, linking

SECONDS = 5.0
"""For all libraries together; what is left then is named as not read."""
OTHERS = frozenset({"torch", "nvidia", "triton", "torchgen", "functorch", "__pycache__"})
LIBRARY = re.compile(r".+\.so(\.[\d.]+)?")
TORCHS = re.compile(r"lib(torch|c10)\w*\.so.*")
"""The libraries of torch that its extensions link to."""
OF_TORCH = re.compile(rb"_Z(?:T[ISV])?N?K?(?:3c10|2at|5torch)|aoti_torch_|torch_|THP")
"""Symbols that torch alone defines: its C++ namespaces, its two C interfaces and its Python types."""
OF_CUDA = re.compile(
    r"lib(cudart|cublas|cublasLt|cufft|curand|cusolver|cusparse|cudnn|nccl|nvrtc|nvJitLink|cupti)\.so.*"
)
SHOWN = 4
"""Symbols that are kept of those that nobody defines."""


def extensions(folders: Sequence[Path], clock: Callable[[], float] = time.monotonic) -> Extensions:
    """What an interpreter with this import path would load beside torch."""
    end = clock() + SECONDS
    home = next((folder for folder in folders if (folder / "torch/lib").is_dir()), None)
    torch = _defined(home) if home else None
    present = frozenset(_present(folders))
    found: list[Extension] = []
    unread, seen = list[str](), set[str]()
    for folder, path in _libraries(folders):
        name = str(path.relative_to(folder))
        if name in seen:
            continue  # another folder comes first on the import path
        seen.add(name)
        if clock() > end:
            unread.append(name)
            continue
        try:
            found += _extension(name, path, torch, present)
        except CheckFailedError:
            continue  # a linker script, or a file that is cut short: the record of its package says so
    return Extensions(tuple(found), tuple(unread))


def _libraries(folders: Sequence[Path]) -> Iterator[tuple[Path, Path]]:
    """Libraries below the folders that packages are installed in, with their folder."""
    for folder in folders:
        if not any(folder.glob("*.dist-info")):
            continue
        for place, inner, files in os.walk(folder):
            if Path(place) == folder:
                inner[:] = [name for name in inner if name not in OTHERS]
            inner.sort()
            yield from ((folder, Path(place, name)) for name in sorted(files) if LIBRARY.fullmatch(name))


def _extension(name: str, path: Path, torch: frozenset[bytes] | None, present: frozenset[str]) -> Iterator[Extension]:
    ties = linking(path)
    targets = tuple(dict.fromkeys(map(str, targets_of_file(path))))
    if not targets and not any(TORCHS.fullmatch(needed) for needed in ties.needed):
        return
    missing = tuple(
        needed for needed in ties.needed if _is_sought(needed) and not _is_here(needed, path, ties, present)
    )
    open_names = set() if torch is None else {symbol for symbol in ties.wanted - torch if OF_TORCH.match(symbol)}
    for neighbour in sorted(path.parent.glob("*.so")) if open_names else ():
        open_names -= _offers(neighbour)
    shown = tuple(symbol.decode(errors="replace") for symbol in sorted(open_names)[:SHOWN])
    yield Extension(name, targets, shown, missing)


def _is_sought(needed: str) -> bool:
    return bool(TORCHS.fullmatch(needed) or OF_CUDA.fullmatch(needed))


def _is_here(needed: str, path: Path, ties: Linking, present: frozenset[str]) -> bool:
    own = (
        folder.replace("$ORIGIN", str(path.parent)).replace("${ORIGIN}", str(path.parent)) for folder in ties.folders
    )
    return needed in present or any(Path(folder, needed).is_file() for folder in own)


def _present(folders: Sequence[Path]) -> Iterator[str]:
    """Libraries that torch brings, that NVIDIA's packages bring, and that the loader knows."""
    for folder in folders:
        for home in (folder / "torch/lib", *folder.glob("nvidia/*/lib")):
            yield from (file.name for file in home.glob("*.so*"))
    try:
        known = LOADER_CACHE.read_bytes()
    except OSError:
        return
    yield from (os.fsdecode(name) for name in re.findall(rb"/([^/\0]+\.so[\d.]*)\0", known))


def _defined(home: Path) -> frozenset[bytes]:
    """Every symbol that the installed torch defines."""
    libraries = (file for file in sorted((home / "torch/lib").glob("*.so*")) if TORCHS.fullmatch(file.name))
    return frozenset().union(*map(_offers, libraries))


def _offers(library: Path) -> frozenset[bytes]:
    try:
        return linking(library).defined
    except CheckFailedError:
        return frozenset()
