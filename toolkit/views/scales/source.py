"""Where a scale pack comes from: a folder, or a hub repository at a commit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from toolkit.checkpoint.hub import HubSource, download
from toolkit.checkpoint.progress import Progress
from toolkit.config.paths import user_path
from toolkit.config.schema.overlay import OverlayConfig
from toolkit.errors import ConfigurationError, ToolkitError
from toolkit.views.scales.pack import MANIFEST_FILE


@dataclass(frozen=True)
class PackSource:
    """A pack by its place, and what it must be."""

    path: str | None
    repository: str | None
    revision: str | None
    scale_sha256: str | None
    """SHA-256 that the scale file must have; None for any."""

    def find(self) -> Path | None:
        """The pack's folder; None where it is still to be downloaded. ConfigurationError where no place is told."""
        if self.path:
            return user_path(self.path, "overlay.path").absolute()
        folder = self._hub().folder
        whole = (folder / MANIFEST_FILE).exists() and any(path.exists() for path in folder.glob("*.safetensors"))
        return folder if whole else None

    def fetch(self, progress: Progress) -> Path:
        """The pack's folder, downloaded if need be; ToolkitError where that does not work."""
        return self.find() or download(self._hub(), progress)

    def _hub(self) -> HubSource:
        if not self.repository:
            raise ConfigurationError(
                "the overlay says no place of its scale pack", fix="set overlay.path to its folder"
            )
        try:
            return HubSource(self.repository, self.revision or "")
        except ToolkitError as error:
            what = error.what.replace("checkpoint.source.", "overlay.")
            raise ConfigurationError(what, why=error.why, fix=error.fix) from None


def configured_pack(overlay: OverlayConfig) -> PackSource | None:
    """The pack that a deployment names; None without an overlay."""
    if overlay.name == "none" and not overlay.path and not overlay.repository:
        return None
    return PackSource(overlay.path, overlay.repository, overlay.revision, overlay.scale_sha256)
