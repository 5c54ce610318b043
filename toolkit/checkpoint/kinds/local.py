"""A folder of the user's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolkit.checkpoint.kinds.kind import needed
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
        """The folder; one that cannot be read or is a broken link counts as found, so that what is wrong is told."""
        try:
            self._folder.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            pass
        return self._folder

    def missing(self) -> str:
        """The folder's name."""
        return f"the folder {self._folder} does not exist; set checkpoint.source.path to where the files are"

    def declared(self) -> dict[str, Any]:
        """checkpoint.declared."""
        return self._declared

    def get(self, progress: Progress) -> Path:  # noqa: ARG002 - nothing to bring here
        """The folder, whether it exists or not: reading it tells."""
        return self._folder
