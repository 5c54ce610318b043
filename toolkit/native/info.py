"""What a native library says about itself, read from its file alone: nothing is loaded, no GPU or torch is needed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import CheckFailedError
from toolkit.native import container, library
from toolkit.native.elf.image import Image


@dataclass(frozen=True)
class Operator:
    """One operator: how wide it accumulates, the device file that holds its kernels, and the prefix of their names.

    An operator that launches nothing has no device file and no prefix.
    """

    name: str
    accumulation: str
    device_code: str = ""
    kernels: str = ""


@dataclass(frozen=True)
class DeviceCode:
    """One blob of device code: cubin (sm_70) or ptx (compute_70), of `size` bytes."""

    name: str
    kind: str
    arch: int
    size: int
    sha256: str


@dataclass(frozen=True)
class Info:
    """Facts of one library. `commit` is `unknown` for a build outside git; `dirty` says that files differed from it."""

    path: str
    operators: tuple[Operator, ...]
    device_code: tuple[DeviceCode, ...]
    abi_revision: int
    commit: str
    dirty: bool
    kernels_sha256: str

    @property
    def architectures(self) -> tuple[str, ...]:
        """Targets in the file, such as ("compute_70", "sm_70")."""
        prefix = {"cubin": "sm_", "ptx": "compute_"}
        return tuple(sorted({f"{prefix[code.kind]}{code.arch}" for code in self.device_code}))


def info() -> Info:
    """Facts of this installation's library. Raises CheckFailedError when it is not built."""
    return read(library.find())


def read(path: Path) -> Info:
    """Facts of the library at `path`. Raises CheckFailedError if it carries no device code container."""
    data = Image.read(path).section(container.SECTION)
    if data is None:
        raise CheckFailedError("the library carries no device code container", where=str(path))
    return from_container(data, str(path))


def from_container(data: bytes, path: str) -> Info:
    """Facts of a container's bytes; `path` is the file that they came from. CheckFailedError without a manifest."""
    entries = container.unpack(data)
    manifest = next((entry for entry in entries if entry.kind is container.Kind.MANIFEST), None)
    if manifest is None:
        raise CheckFailedError("the device code container has no manifest", where=path)
    facts = json.loads(manifest.data)
    return Info(
        path=path,
        operators=tuple(Operator(name=name, **values) for name, values in sorted(facts["operators"].items())),
        device_code=tuple(
            DeviceCode(entry.name, entry.kind.name.lower(), entry.arch, len(entry.data), entry.sha256())
            for entry in entries
            if entry.kind is not container.Kind.MANIFEST
        ),
        abi_revision=facts["abi_revision"],
        commit=facts["commit"],
        dirty=facts["dirty"],
        kernels_sha256=facts["kernels_sha256"],
    )
