"""Small checkpoints and scale packs, made for one test."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

from toolkit.checkpoint.local import read_facts
from toolkit.views.base import index_sha256
from toolkit.views.inputs import PackInput, ViewInputs, read_spec
from toolkit.views.scales.pack import SCALE_FILE, ScalePack, make_pack, pack_files
from toolkit.views.spec import ViewSpec

LABEL = "tiny"


def write_shard(path: Path, tensors: Iterable[str]) -> None:
    """A safetensors file with two FP32 numbers a tensor."""
    header: dict[str, object] = {}
    for position, name in enumerate(tensors):
        offsets = [8 * position, 8 * position + 8]
        header[name] = {"dtype": "F32", "shape": [2], "data_offsets": offsets}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    data = struct.pack(f"<{2 * len(header)}f", *range(2 * len(header)))
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def projections(prefix: str, layers: Iterable[int]) -> list[str]:
    return [f"{prefix}.layers.{layer}.self_attn.{kind}_proj.weight" for layer in layers for kind in "kv"]


def make_base(folder: Path, layers: int = 2, draft: int = 0, prefix: str = "model") -> Path:
    """Two shards with an index, settings, a subfolder, and names with a space and letters beyond ASCII."""
    (folder / "templates élégants").mkdir(parents=True)
    shards = {
        "model-00001-of-00002.safetensors": [f"{prefix}.embed_tokens.weight", *projections(prefix, range(layers))],
        "model-00002-of-00002.safetensors": ["lm_head.weight", *projections("mtp", range(draft))],
    }
    for file, tensors in shards.items():
        write_shard(folder / file, tensors)
    weight_map = {name: file for file, tensors in shards.items() for name in tensors}
    index = {"metadata": {"total_size": 8 * len(weight_map), "note": "kept"}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text(json.dumps({"dtype": "bfloat16", "rope": {"theta": 1.0}, "eos": [1, 2]}))
    (folder / "a name.txt").write_text("with a space")
    (folder / "templates élégants" / "模板.jinja").write_text("{{ x }}")
    return folder


def make_small_base(folder: Path) -> Path:
    """The least that has every kind of entry: a shard, an index, a setting and a subfolder."""
    (folder / "sub").mkdir(parents=True)
    write_shard(folder / "model.safetensors", projections("model", range(1)))
    weight_map = dict.fromkeys(projections("model", range(1)), "model.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    (folder / "config.json").write_text("{}")
    (folder / "sub" / "chat.jinja").write_text("{{ x }}")
    return folder


def scales_for(layers: int = 2, prefix: str = "model", first: float = 0.5) -> dict[str, float]:
    names = [f"{prefix}.layers.{layer}.self_attn.{kind}_scale" for layer in range(layers) for kind in "kv"]
    return {name: first + position / 4 for position, name in enumerate(names)}


def pack_for(base: Path, scales: Mapping[str, float], file: str = SCALE_FILE, artifact: str = "measured") -> ScalePack:
    maxima = {name: 448 * scale for name, scale in scales.items()}
    return make_pack(artifact, index_sha256(read_facts(base, LABEL)), scales, maxima, file)


def write_pack(folder: Path, pack: ScalePack) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in pack_files(pack).items():
        (folder / name).write_bytes(data)
    return folder


def spec_for(base: Path, *packs: Path, **inputs: object) -> ViewSpec:
    taken = tuple(PackInput(str(pack)) for pack in packs)
    return read_spec(ViewInputs(LABEL, str(base), packs=taken, **inputs))  # type: ignore[arg-type]


def snapshot(folder: Path) -> dict[str, tuple[object, ...]]:
    """Everything below a folder that a write would change."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted([folder, *folder.rglob("*")]):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (status.st_mode, status.st_ino, status.st_mtime_ns, status.st_nlink, content)
    return found
