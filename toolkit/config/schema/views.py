"""Group `views`: the store of model views, and what a view changes besides the overlay."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Optional


class LinkChoice(Enum):
    """How a view takes the base's files."""

    auto = "auto"
    reflink = "reflink"
    symlink = "symlink"
    copy = "copy"


class ScaleValues(Enum):
    """Which values the scales get."""

    pack = "pack"
    unit = "unit"


@dataclass
class ViewsConfig:
    """Where model views are kept and how they are made."""

    root: str = ""
    """Folder of the view store; empty for the user's data folder."""
    declared: Optional[str] = None
    """A view of model_views/ by name: its overlays and edits are taken, and its base revision is demanded."""
    links: LinkChoice = LinkChoice.auto
    """`auto` tries a reflink, then a relative symbolic link, then a copy, which is announced; the others demand one."""
    scales: ScaleValues = ScaleValues.pack
    """`pack` takes the overlay's scales; `unit` sets every scale to 1.0: the negative control of a comparison."""
    draft_scales: str = "calibrated"
    """Scales of the checkpoint's own draft layers: `calibrated` (in a pack), `prototype:unit` (1.0) or
    `prototype:from-layer-N` (those of the target's layer N)."""
    edits: list[dict[str, Any]] = field(default_factory=list)
    """Changes to JSON files, each with file, op (replace, add, remove), path (a JSON pointer), value, and was (what
    must be there before); one that matches nothing is an error."""
