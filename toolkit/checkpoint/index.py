"""model.safetensors.index.json: which file holds which tensor."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from toolkit.checkpoint.safetensors_header import open_fault, printable
from toolkit.checkpoint.strict_json import StrictJsonError, parse_object
from toolkit.errors import Rejected

INDEX_FILE = "model.safetensors.index.json"


@dataclass(frozen=True)
class Index:
    """The index, as far as it is sound."""

    weight_map: dict[str, str]
    """Tensor name to file."""
    sha256: str | None
    faults: tuple[Rejected, ...] = ()

    @property
    def files(self) -> list[str]:
        """The files that it names, each once, sorted."""
        return sorted(set(self.weight_map.values()))


def read_index(path: Path) -> Index:
    """The index at `path`; never raises for what the file holds."""
    try:
        data = path.read_bytes()
    except OSError as error:
        return Index({}, None, (Rejected(INDEX_FILE, open_fault(error)),))
    digest = hashlib.sha256(data).hexdigest()
    try:
        weight_map = parse_object(data).get("weight_map")
    except StrictJsonError as fault:
        return Index({}, digest, (Rejected(INDEX_FILE, str(fault)),))
    if not isinstance(weight_map, dict) or not weight_map:
        return Index({}, digest, (Rejected(INDEX_FILE, "no weight_map: it must map tensor names to files"),))
    named = {value if type(value) is str else repr(value) for value in weight_map.values()}
    faults = tuple(Rejected(INDEX_FILE, _unsafe(value)) for value in sorted(named) if not _safe(value))
    return Index({} if faults else weight_map, digest, faults)


def _safe(file: str) -> bool:
    """Whether a file is named inside the checkpoint's folder, in the one spelling that names it."""
    if not file.endswith(".safetensors") or not printable(file):
        return False
    path = PurePosixPath(file)
    return not path.is_absolute() and ".." not in path.parts and "\\" not in file and str(path) == file


def _unsafe(file: str) -> str:
    return f"it names the file {file!r}; only .safetensors files inside this folder are allowed, without '..'"
