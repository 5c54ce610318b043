"""KV scales of the served folder, brought to the attention layers whatever the checkpoint's quantization.

vLLM loads such scales only where a quantization method asks for them: the layers of an unquantized checkpoint are set
to 1.0 after loading (vLLM 0.32, model_executor/layers/attention/attention.py, process_weights_after_loading). So they
are set here, after the model was loaded and before anything is compiled or captured. A stored byte stands for
value / scale: the cache write divides by the layer's scale, attention multiplies by it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from toolkit.planning.attention_routes import FP8_DTYPES
from toolkit.planning.worker_report import LayerKey, layer_key
from toolkit.plugin.layers import shared_with

INDEX_FILE = "model.safetensors.index.json"
_SCALE = re.compile(r".+\.layers\.[0-9]{1,9}\.self_attn\.([kv])_scale")


def read_scales(folder: Path) -> dict[str, float]:
    """The scales in a folder's scale shards, by their names there; empty where it has no such shard.

    A scale shard holds nothing but scales: those among a checkpoint's weights belong to its quantization, and vLLM
    loads them itself. Raises ValueError for a scale that is no FP32 number above zero.
    """
    index = folder / INDEX_FILE
    if not index.is_file():
        return {}
    places: Mapping[str, str] = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
    weights = {file for name, file in places.items() if not _SCALE.fullmatch(name)}
    shards = sorted(set(places.values()) - weights)
    return {name: value for file in shards for name, value in _read_shard(folder / file)}


def _read_shard(path: Path) -> Iterable[tuple[str, float]]:
    import torch
    from safetensors import safe_open

    with safe_open(path, framework="pt") as shard:
        for name in shard.keys():  # noqa: SIM118  (no mapping)
            tensor = shard.get_tensor(name)
            if tensor.dtype != torch.float32 or tensor.numel() != 1:
                raise ValueError(f"{path.name}: {name} is {tensor.dtype} of {tensor.numel()}, a KV scale is one FP32")
            value = float(tensor.item())
            if not math.isfinite(value) or value <= 0:
                raise ValueError(f"{path.name}: {name} is {value}, a KV scale is finite and above zero")
            yield name, value


def set_scales(layers: Mapping[str, Any], scales: Mapping[str, float]) -> tuple[str, ...]:
    """Give each layer with an FP8 cache its scales; returns the names of scales that no layer took.

    layers: by vLLM's name. scales: by the checkpoint's name. A layer that reads another one's cache takes its scales.
    Raises ValueError where two layers that keep a cache could be meant by one name.
    """
    owners = _owners(layers)
    named = {(key, name.rpartition(".")[2][0]): name for name in scales if (key := layer_key(name)) is not None}
    taken = set()
    for name, layer in layers.items():
        key = layer_key(shared_with(layer) or name)
        for kind in "kv":
            scale = named.get((key, kind)) if key in owners else None
            if scale is not None and layer.kv_cache_dtype in FP8_DTYPES:
                _set(layer, kind, scales[scale])
                taken.add(scale)
    return tuple(sorted(scales.keys() - taken))


def _owners(layers: Mapping[str, Any]) -> dict[LayerKey, str]:
    owners: dict[LayerKey, str] = {}
    for name, layer in layers.items():
        key = layer_key(name)
        if key is None or shared_with(layer) is not None:
            continue
        if key in owners:
            raise ValueError(f"KV scales of layer {key.number} could be meant for {owners[key]} and for {name}")
        owners[key] = name
    return owners


def _set(layer: Any, kind: str, value: float) -> None:
    """All copies that backends read: the device's tensor (in place, as graphs hold its address), and the host's."""
    getattr(layer, f"_{kind}_scale").fill_(value)
    setattr(layer, f"_{kind}_scale_float", value)
    if hasattr(layer, f"_{kind}_scale_cpu"):
        getattr(layer, f"_{kind}_scale_cpu").fill_(value)
