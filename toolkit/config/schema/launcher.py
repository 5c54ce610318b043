"""Group `launcher`: what starts the engine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class LauncherKind(Enum):
    """A process on this machine, or a container."""

    local = "local"
    docker = "docker"


@dataclass
class LauncherConfig:
    """How the engine is started."""

    kind: LauncherKind = LauncherKind.local
    """`local` (a process of this machine) or `docker`."""
