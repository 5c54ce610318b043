"""Group `overlay`: calibrated KV scales laid over an untouched checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional


@dataclass
class OverlayConfig:
    """A scale pack; `none` leaves every scale at 1.0."""

    name: str = "none"
    """The pack's name; `none` for no overlay."""
    path: Optional[str] = None
    """A local folder that holds the pack."""
    repository: Optional[str] = None
    """A hub repository that holds the pack."""
    revision: Optional[str] = None
    """The pack's commit, 40 hexadecimal digits."""
    base_index_sha256: Optional[str] = None
    """SHA-256 of the model.safetensors.index.json that the pack was measured on."""
    scale_sha256: Optional[str] = None
    """SHA-256 of the pack's scale file."""
    strict: bool = True
    """Refuse to serve when a scale is missing, instead of falling back to 1.0 for it."""
