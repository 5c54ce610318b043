"""Checkpoints written by hand, sound and broken."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path

BYTES = {"U8": 1, "F16": 2, "BF16": 2, "F32": 4}


def header_of(tensors: dict[str, tuple[str, list[int]]]) -> dict[str, dict]:
    """A sound header for tensors given as {name: (dtype, shape)}."""
    header, begin = {}, 0
    for name, (dtype, shape) in tensors.items():
        end = begin + BYTES[dtype] * prod(shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
        begin = end
    return header


def raw_shard(path: Path, header: object, data_bytes: int, text: bytes | None = None) -> None:
    """A file with this header (or this text in its place) and so many bytes of data."""
    text = json.dumps(header).encode() if text is None else text
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(data_bytes))


def shard(path: Path, tensors: dict[str, tuple[str, list[int]]]) -> None:
    """A sound file."""
    header = header_of(tensors)
    raw_shard(path, header, max((entry["data_offsets"][1] for entry in header.values()), default=0))


def index(folder: Path, weight_map: dict[str, str]) -> None:
    """An index."""
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def sharded(folder: Path, shards: dict[str, dict[str, tuple[str, list[int]]]], config: dict | None = None) -> Path:
    """A whole checkpoint of several files."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config or {"model_type": "llama"}))
    for file, tensors in shards.items():
        shard(folder / file, tensors)
    index(folder, {name: file for file, tensors in shards.items() for name in tensors})
    return folder
