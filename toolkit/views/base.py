"""What a view needs to know of the checkpoint below it; nothing of it is ever written.

A file's identity is its path, its size, and its SHA-256 where that is known without reading a large file: a hub cache
names blobs by it, the checkpoint store and a view below this one record it, and small files are read anyway. Other
files are identified by their modification time: hashing 125 GB would take minutes at each start, and whatever writes
to a file changes its time. The inode is left out, as it changes where a checkpoint is restored or a container starts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit.checkpoint.facts import CheckpointFacts
from toolkit.checkpoint.index import INDEX_FILE
from toolkit.checkpoint.safetensors_header import open_fault
from toolkit.checkpoint.store import MANIFEST
from toolkit.checkpoint.strict_json import parse_object
from toolkit.errors import CheckFailedError
from toolkit.views.digest import SHA256, sha256
from toolkit.views.edits import PROVENANCE_FILE
from toolkit.views.marker import MARKER_FILE, read_marker

_SMALL = 1 << 18  # bytes up to which a file is hashed at once: 0.1 s for 400 of them


@dataclass(frozen=True)
class BaseFile:
    """One file of the base, through links."""

    path: str
    """Relative to the base's folder."""
    size: int
    """Bytes."""
    mtime_ns: int
    sha256: str | None

    @property
    def identity(self) -> tuple[str, int, str]:
        """What the view's digest covers of this file."""
        return self.path, self.size, self.sha256 or f"modified at {self.mtime_ns}"


@dataclass(frozen=True)
class Base:
    """A checkpoint's folder."""

    root: Path
    """Without symbolic links in its own path, so that relative links to it hold."""
    files: tuple[BaseFile, ...]
    tensors: Mapping[str, str]
    """File of each tensor."""
    tensor_bytes: int
    """Bytes of all tensors."""
    index: bytes
    """model.safetensors.index.json; made from the headers where the checkpoint is a single file."""
    texts: Mapping[str, bytes]
    """Contents of the files that a view edits, and the provenance of a view below this one."""
    own: Mapping[str, bytes]
    """Where the base is a view: the scale shards that are its own files, which the next view must own as well."""

    @property
    def index_sha256(self) -> str:
        """What a scale pack names its base by."""
        return sha256(self.index)


def read_base(checkpoint: CheckpointFacts, edited: Iterable[str] = ()) -> Base:
    """The base of a view, from a checkpoint that is on this machine; CheckFailedError where a file cannot be read.

    edited: files whose contents the view changes.
    """
    assert checkpoint.root is not None, "the checkpoint is on this machine"  # noqa: S101
    root = checkpoint.root.resolve()
    tensors = {name: tensor.file for name, tensor in checkpoint.tensors.items()}
    total = checkpoint.weight_bytes or 0
    own = _own_shards(root)
    wanted = {*edited, PROVENANCE_FILE} & checkpoint.files.keys()
    return Base(
        root=root,
        files=_files(root, checkpoint.files),
        tensors=tensors,
        tensor_bytes=total,
        index=_read(root / INDEX_FILE) if INDEX_FILE in checkpoint.files else _made_index(tensors, total),
        texts={path: _read(root / path) for path in sorted(wanted)},
        own={path: _read(root / path) for path in own if path in checkpoint.files},
    )


def index_sha256(checkpoint: CheckpointFacts) -> str:
    """What a scale pack that is measured on this checkpoint names it by (`base_checkpoint.index_sha256`).

    That of the index file; a checkpoint without one is named by the index that its headers give.
    """
    tensors = {name: tensor.file for name, tensor in checkpoint.tensors.items()}
    return checkpoint.index_sha256 or sha256(_made_index(tensors, checkpoint.weight_bytes or 0))


def _made_index(tensors: Mapping[str, str], total: int) -> bytes:
    return index_text({"metadata": {"total_size": total}, "weight_map": dict(tensors)})


def index_text(index: Mapping[str, Any]) -> bytes:
    """An index file's text: sorted, indented by two."""
    return (json.dumps(index, indent=2, sort_keys=True) + "\n").encode()


def _files(root: Path, files: Iterable[str]) -> tuple[BaseFile, ...]:
    recorded, recorded_ns = _recorded(root)
    found = []
    for path in sorted(files):
        try:
            status = (root / path).stat()
        except OSError as error:
            raise _unreadable(root / path, error) from None
        # A file that was written after the record was is no longer what the record says.
        known = recorded.get(path) if status.st_mtime_ns <= recorded_ns else None
        known = known or _blob_name(root / path)
        if known is None and status.st_size <= _SMALL:
            known = sha256(_read(root / path))
        found.append(BaseFile(path, status.st_size, status.st_mtime_ns, known))
    return tuple(found)


def _recorded(root: Path) -> tuple[dict[str, str], int]:
    """SHA-256 by path, as the checkpoint store or a view recorded them, and when (ns since the epoch)."""
    marker = read_marker(root)
    if marker is not None:
        known: list[tuple[str, str]] = [(file.path, file.sha256) for file in marker.fresh]
        known += [(link.path, link.sha256) for link in marker.links if link.sha256]
        return dict(known), (root / MARKER_FILE).stat().st_mtime_ns
    try:
        files = parse_object((root / MANIFEST).read_bytes())["files"]
        return {path: entry["sha256"] for path, entry in files.items()}, (root / MANIFEST).stat().st_mtime_ns
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}, 0


def _blob_name(path: Path) -> str | None:
    """The SHA-256 by which a hub cache names the blob of a large file; small ones are named by another hash."""
    blob = Path(os.path.realpath(path))
    return blob.name if blob.parent.name == "blobs" and SHA256.fullmatch(blob.name) else None


def _own_shards(root: Path) -> list[str]:
    marker = read_marker(root)
    return [file.path for file in marker.fresh if file.path.endswith(".safetensors")] if marker else []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> CheckFailedError:
    fix = "bring the checkpoint's file back, or make it readable"
    return CheckFailedError(f"{path.name} of the checkpoint: {open_fault(error)}", where=str(path), fix=fix)
