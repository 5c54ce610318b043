"""A scale pack (schema 1): a scale shard and the manifest that says what it was measured on."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from toolkit.checkpoint.faults import check_failed
from toolkit.checkpoint.safetensors_header import open_fault
from toolkit.checkpoint.strict_json import StrictJsonError, parse_object
from toolkit.errors import CheckFailedError, Rejected
from toolkit.views.scales.names import layer_and_kind
from toolkit.views.scales.scale_file import decode_scales, encode_scales

MANIFEST_FILE = "kvscales-manifest.json"
SCALE_FILE = "model-kvscales.safetensors"
DRAFT_FILE = "model-bf16-kvscales-mtp.safetensors"
PACK_SCHEMA = 1

_FIX = "take the scale pack anew from where it was published, or calibrate again"


@dataclass(frozen=True)
class ScalePack:
    """A checked pack: the manifest and the shard agree."""

    artifact: str
    base_index_sha256: str
    """Of the model.safetensors.index.json that it was measured on."""
    file: str
    sha256: str
    data: bytes
    """The shard as it is on the disk."""
    scales: Mapping[str, float]
    maxima: Mapping[str, float] = field(default_factory=dict)
    """Largest magnitude seen, by scale name, as far as the manifest tells."""


def read_pack(folder: Path) -> ScalePack:
    """The pack in a folder; CheckFailedError where anything of it is missing or does not fit."""
    manifest = _read_manifest(folder / MANIFEST_FILE)
    entry = manifest["scale_file"]
    data = _read(folder / _plain_name(entry["filename"], folder), folder)
    sha256 = hashlib.sha256(data).hexdigest()
    if sha256 != entry["sha256"]:
        raise CheckFailedError(
            f"{entry['filename']}: the SHA-256 is not the manifest's",
            where=str(folder),
            why=f"the file has {sha256}, the manifest says {entry['sha256']}",
            fix=_FIX,
        )
    scales = decode_scales(data, entry["filename"])
    faults = _name_faults(scales, entry) + _value_faults(scales, manifest["tensors"])
    if faults:
        raise check_failed([Rejected(MANIFEST_FILE, text) for text in faults], where=str(folder), fix=_FIX)
    base = manifest["base_checkpoint"]["index_sha256"]
    maxima = _maxima(scales, manifest["tensors"])
    return ScalePack(manifest["artifact_id"], base, entry["filename"], sha256, data, scales, maxima)


def make_pack(
    artifact: str, base_index_sha256: str, scales: Mapping[str, float], maxima: Mapping[str, float], file: str
) -> ScalePack:
    """A pack from measured scales; `maxima` may lack names whose magnitude was not measured."""
    data = encode_scales(scales)
    sha256 = hashlib.sha256(data).hexdigest()
    return ScalePack(artifact, base_index_sha256, file, sha256, data, dict(sorted(scales.items())), dict(maxima))


def pack_files(pack: ScalePack) -> dict[str, bytes]:
    """The files of a pack's folder; write them readable for the engine's user (0644)."""
    tensors = []
    for name, scale in pack.scales.items():
        layer, kind = layer_and_kind(name) or (None, None)
        measured = pack.maxima.get(name)
        tensors.append({"layer": layer, "kind": kind, "name": name, "max_abs": measured, "scale": scale})
    manifest = {
        "schema_version": PACK_SCHEMA,
        "artifact_id": pack.artifact,
        "base_checkpoint": {"index_sha256": pack.base_index_sha256},
        "scale_file": {
            "filename": pack.file,
            "sha256": pack.sha256,
            "tensor_names": list(pack.scales),
            "tensor_count": len(pack.scales),
        },
        "tensors": tensors,
    }
    return {pack.file: pack.data, MANIFEST_FILE: (json.dumps(manifest, indent=2, sort_keys=True) + "\n").encode()}


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = parse_object(_read(path, path.parent))
    except StrictJsonError as error:
        raise check_failed([Rejected(MANIFEST_FILE, str(error))], where=str(path.parent), fix=_FIX) from None
    schema = manifest.get("schema_version")
    if type(schema) is not int or schema != PACK_SCHEMA:
        raise CheckFailedError(
            f"{MANIFEST_FILE}: schema_version {schema!r} is unknown, {PACK_SCHEMA} is read", where=str(path), fix=_FIX
        )
    faults = [Rejected(MANIFEST_FILE, text) for text in _manifest_faults(manifest)]
    if faults:
        raise check_failed(faults, where=str(path.parent), fix=_FIX)
    return {"tensors": [], **manifest}


def _manifest_faults(manifest: Mapping[str, Any]) -> list[str]:
    needed = {
        "artifact_id": (manifest.get("artifact_id"), str),
        "base_checkpoint.index_sha256": (_inside(manifest, "base_checkpoint", "index_sha256"), str),
        "scale_file.filename": (_inside(manifest, "scale_file", "filename"), str),
        "scale_file.sha256": (_inside(manifest, "scale_file", "sha256"), str),
        "scale_file.tensor_names": (_inside(manifest, "scale_file", "tensor_names"), list),
        "scale_file.tensor_count": (_inside(manifest, "scale_file", "tensor_count"), int),
        "tensors": (manifest.get("tensors", []), list),
    }
    faults = [
        f"{key} is not there, or no {kind.__name__}" for key, (value, kind) in needed.items() if type(value) is not kind
    ]
    if not faults and not manifest["artifact_id"].isprintable():
        faults.append("artifact_id holds what cannot be printed")
    return faults


def _inside(manifest: Mapping[str, Any], group: str, key: str) -> Any:
    inner = manifest.get(group)
    return inner.get(key) if isinstance(inner, dict) else None


def _plain_name(name: str, folder: Path) -> str:
    """The shard's name, if it is a file of the pack's own folder."""
    path = PurePosixPath(name)
    beside = not path.is_absolute() and len(path.parts) == 1 and not name.startswith(".")
    if not beside or not name.isprintable() or path.suffix != ".safetensors":
        raise CheckFailedError(
            f"{MANIFEST_FILE}: the scale file is named {name!r}, it must be a .safetensors file beside the manifest",
            where=str(folder),
            why="absolute paths and '..' could name a file of another folder",
            fix=_FIX,
        )
    return name


def _read(path: Path, folder: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        reason = open_fault(error)
        fix = f"make it readable: chmod a+r '{path}'" if "permission" in reason else "set overlay.path to a scale pack"
        raise check_failed([Rejected(path.name, reason)], where=str(folder), fix=fix) from None


def _name_faults(scales: Mapping[str, float], entry: Mapping[str, Any]) -> list[str]:
    listed = [str(name) for name in entry["tensor_names"]]
    faults = [f"{name} is listed twice" for name in sorted({name for name in listed if listed.count(name) > 1})]
    faults += [f"{name} is listed and not in {entry['filename']}" for name in sorted(set(listed) - scales.keys())]
    faults += [f"{name} is in {entry['filename']} and not listed" for name in sorted(scales.keys() - set(listed))]
    if entry["tensor_count"] != len(scales):
        faults.append(f"tensor_count is {entry['tensor_count']}, {entry['filename']} holds {len(scales)}")
    return faults + [f"{name} is no name of a KV scale" for name in scales if layer_and_kind(name) is None]


def _measured(scales: Mapping[str, float], tensors: Sequence[Any]) -> dict[str, Mapping[str, Any]]:
    """The manifest's entry of each scale: by its name where it has one, else by layer and kind if that is unique."""
    numbered: dict[tuple[int, str], list[str]] = {}
    for name in scales:
        numbered.setdefault(layer_and_kind(name) or (-1, ""), []).append(name)
    found: dict[str, Mapping[str, Any]] = {}
    for entry in tensors:
        if not isinstance(entry, dict):
            continue
        layer, kind = entry.get("layer"), str(entry.get("kind", ""))[:1].lower()
        names = numbered.get((layer, kind), []) if type(layer) is int else []
        named = str(entry.get("name", names[0] if len(names) == 1 else ""))
        if named in scales:
            found[named] = entry
    return found


def _value_faults(scales: Mapping[str, float], tensors: Sequence[Any]) -> list[str]:
    """Where the manifest and the shard tell different scales; the manifest's may be printed with fewer digits."""
    faults = []
    for name, entry in _measured(scales, tensors).items():
        told, largest = entry.get("scale"), entry.get("max_abs")
        if told is not None and not abs(_number(told) - scales[name]) <= 1e-5 * scales[name]:
            faults.append(f"{name} is {scales[name]:g} in the file, {_shown(told)} in the manifest")
        if largest is not None and not 0 <= _number(largest) < math.inf:
            faults.append(f"max_abs of {name} is {_shown(largest)}, which is no magnitude")
    return faults


def _number(value: Any) -> float:
    """A number of JSON as float; NaN for anything else, infinity for one that is too large."""
    if type(value) not in (int, float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _shown(value: Any) -> str:
    text = "a number of hundreds of digits" if _number(value) == math.inf and type(value) is int else repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def _maxima(scales: Mapping[str, float], tensors: Sequence[Any]) -> dict[str, float]:
    entries = _measured(scales, tensors).items()
    return {name: _number(entry["max_abs"]) for name, entry in entries if entry.get("max_abs") is not None}
