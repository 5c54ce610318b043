"""What is known of a checkpoint without loading a weight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class TensorFacts:
    """One tensor, from a safetensors header."""

    name: str
    dtype: str
    """The safetensors spelling: BF16, F16, F32, F8_E4M3, U8, ..."""
    shape: tuple[int, ...]
    num_bytes: int
    file: str
    """Path relative to the checkpoint's folder."""


@dataclass(frozen=True)
class CheckpointFacts:
    """A checkpoint's config.json and tensors.

    present: the files are on this machine; otherwise `config` is what the recipe declares and `tensors` is empty.
    """

    name: str
    present: bool
    root: Path | None
    """The folder that holds the files; None where they are not here."""
    config: Mapping[str, Any]
    tensors: Mapping[str, TensorFacts] = field(default_factory=dict)
    files: Mapping[str, int] = field(default_factory=dict)
    """Bytes of every file, by path relative to `root`."""
    index_sha256: str | None = None
    """SHA-256 of model.safetensors.index.json, or None for a single-file checkpoint."""
    weight_bytes: int | None = None
    """Bytes of all tensors; the declared number where the files are not here; None if unknown."""
    missing: str | None = None
    """Why the files are not here, and how to get them."""
