"""A repository of a model hub at a commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolkit.checkpoint.hub import HubSource, download, is_whole
from toolkit.checkpoint.kinds.kind import libraries, needed
from toolkit.checkpoint.progress import Progress
from toolkit.config.schema.checkpoint import CheckpointConfig
from toolkit.errors import ConfigurationError


class HubKind:
    """checkpoint.source.repository and .revision."""

    def __init__(self, config: CheckpointConfig) -> None:
        _see_no_other_kind(config)
        self._declared = dict(config.declared)
        repository = needed(config.source.repository, "repository", "hub")
        self._source = HubSource(repository, needed(config.source.revision, "revision", "hub"))

    def find(self) -> Path | None:
        """The commit's folder in the hub library's cache, once its weights are all there."""
        return self._source.folder if is_whole(self._source.folder) else None

    def missing(self) -> str:
        """What is to be downloaded."""
        at = f"{self._source.repository} at {self._source.revision[:12]}"
        return f"{at} is not, or not wholly, in {self._source.folder.parents[2]}; serving downloads it"

    def declared(self) -> dict[str, Any]:
        """checkpoint.declared."""
        return self._declared

    def get(self, progress: Progress) -> Path:
        """The folder, downloaded as far as it is not there."""
        with libraries("hub"):
            return download(self._source, progress)


def _see_no_other_kind(config: CheckpointConfig) -> None:
    """What is declared beside a package's file is that model's; planning another one from it would be wrong."""
    if config.source.package:
        raise ConfigurationError(
            f"checkpoint.source.kind=hub, and checkpoint.source.package={config.source.package} as well",
            why=f"what is declared of {config.name} would be taken for the hub's model",
            fix="checkpoint=hub checkpoint.name=NAME checkpoint.source.repository=... checkpoint.source.revision=...",
        )
