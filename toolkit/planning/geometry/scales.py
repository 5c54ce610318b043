"""KV scales among a checkpoint's tensors, by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

# `...self_attn.k_scale`, `...self_attn.k_proj.k_scale` and `...attn.k_scale` all load as the layer's K scale.
_SCALE = re.compile(r"(?P<head>.*?)layers\.(?P<layer>\d+)\..*?attn\.(?:[kv]_proj\.)?(?P<kind>[kv])_scale$")


def kv_scales(names: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """Find, for each attention layer that has any, which of `k` and `v` has a stored scale.

    Layers are named as in the checkpoint, up to the layer's number: `model.layers.3`, `mtp.layers.0`.
    """
    found: dict[str, set[str]] = {}
    for name in names:
        match = _SCALE.match(name)
        if match:
            found.setdefault(f"{match['head']}layers.{match['layer']}", set()).add(match["kind"])
    return {layer: frozenset(kinds) for layer, kinds in sorted(found.items())}
