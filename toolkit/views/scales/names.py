"""Which KV scales a checkpoint can take, from its tensors' names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from toolkit.errors import CheckFailedError
from toolkit.planning.worker_report import LayerKey, layer_key

# Any tensor of the K projection marks an attention layer that keeps a KV cache; quantised ones have several.
_PROJECTION = re.compile(r"(?P<prefix>.+)\.layers\.(?P<layer>[0-9]{1,9})\.self_attn\.(?:k|qkv)_proj\.\w*weight\w*")
_LAYER = re.compile(r"(?P<prefix>.+)\.layers\.(?P<layer>[0-9]{1,9})\.self_attn\.(?P<kind>[kv])_scale")
_ENCODERS = ("vision", "visual", "audio")  # their attention keeps no KV cache

Place = tuple[LayerKey, str]
"""A layer, and `k` or `v`."""


@dataclass(frozen=True)
class ScaleNames:
    """The names of all scales that a checkpoint's attention layers can take."""

    prefix: str
    """The checkpoint's prefix of the target's layers, such as `model.language_model`."""
    target: frozenset[str]
    draft: frozenset[str]
    """Of the checkpoint's own next-token (MTP) layers."""


def scale_names(tensors: Iterable[str]) -> ScaleNames:
    """The scale names for a checkpoint's tensors: the target is the prefix with the most attention layers.

    Raises CheckFailedError where there is no attention layer at all.
    """
    layers: dict[str, set[int]] = {}
    for name in tensors:
        match = _PROJECTION.fullmatch(name)
        if match and not any(word in match["prefix"] for word in _ENCODERS):
            layers.setdefault(match["prefix"], set()).add(int(match["layer"]))
    drafts = {prefix: numbers for prefix, numbers in layers.items() if prefix.rpartition(".")[2] == "mtp"}
    targets = {prefix: numbers for prefix, numbers in layers.items() if prefix not in drafts}
    if not targets:
        raise CheckFailedError(
            "the checkpoint has no attention layer that could take a KV scale",
            why="no tensor is named PREFIX.layers.N.self_attn.k_proj.weight",
            fix="serve it without a scale overlay: overlay=none",
        )
    prefix = max(sorted(targets), key=lambda name: len(targets[name]))
    draft = frozenset[str]().union(*(_names(name, numbers) for name, numbers in drafts.items()))
    return ScaleNames(prefix, _names(prefix, targets[prefix]), draft)


def _names(prefix: str, layers: Iterable[int]) -> frozenset[str]:
    return frozenset(f"{prefix}.layers.{layer}.self_attn.{kind}_scale" for layer in layers for kind in "kv")


def layer_and_kind(name: str) -> tuple[int, str] | None:
    """The layer's number and `k` or `v` of a scale's name; None for any other name."""
    match = _LAYER.fullmatch(name)
    return (int(match["layer"]), match["kind"]) if match else None


def place_of(name: str) -> Place | None:
    """The layer and `k` or `v` that a scale's name means, as the engine's layers are named; None for any other name."""
    key, numbered = layer_key(name), layer_and_kind(name)
    return (key, numbered[1]) if key is not None and numbered is not None else None
