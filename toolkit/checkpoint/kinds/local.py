"""A folder of the user's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolkit.checkpoint.kinds.kind import needed
from toolkit.checkpoint.local import is_bare, read_config
from toolkit.checkpoint.progress import Progress
from toolkit.config.paths import user_path
from toolkit.config.schema.checkpoint import CheckpointConfig


class LocalKind:
    """checkpoint.source.path."""

    def __init__(self, config: CheckpointConfig) -> None:
        self._declared = dict(config.declared)
        path = needed(config.source.path, "path", "local")
        # Absolute: the engine may be started from another folder.
        self._folder = user_path(path, "checkpoint.source.path").absolute()

    def find(self) -> Path | None:
        """The folder; without weights it is none, and one that cannot be read is told by who reads it."""
        try:
            self._folder.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            pass
        return None if is_bare(self._folder) else self._folder

    def missing(self) -> str:
        """The folder's name, and what it lacks."""
        if is_bare(self._folder):
            return f"the folder {self._folder} holds config.json and no weights; put the safetensors files beside it"
        return f"the folder {self._folder} does not exist; set checkpoint.source.path to where the files are"

    def declared(self) -> dict[str, Any]:
        """The folder's config.json where that is all it holds, else checkpoint.declared."""
        return read_config(self._folder) if is_bare(self._folder) else self._declared

    def get(self, progress: Progress) -> Path:  # noqa: ARG002 - nothing to bring here
        """The folder, whether it exists or not: reading it tells."""
        return self._folder
