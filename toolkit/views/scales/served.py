"""The KV scales that a served folder holds, read apart from the plugin, to compare with what the engine uses."""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.checkpoint.facts import CheckpointFacts
from toolkit.checkpoint.faults import check_failed
from toolkit.checkpoint.safetensors_header import open_fault
from toolkit.errors import Rejected
from toolkit.views.scales.names import layer_and_kind
from toolkit.views.scales.scale_file import decode_scales


def served_scales(checkpoint: CheckpointFacts) -> Mapping[str, float]:
    """The scales in the folder's scale shards, by name; empty where it has none. CheckFailedError for a broken shard.

    Scales among a checkpoint's weights belong to its quantization, which loads them.
    """
    if checkpoint.root is None:
        return {}
    weights = {tensor.file for name, tensor in checkpoint.tensors.items() if layer_and_kind(name) is None}
    scales: dict[str, float] = {}
    for file in sorted({tensor.file for tensor in checkpoint.tensors.values()} - weights):
        try:
            data = (checkpoint.root / file).read_bytes()
        except OSError as error:
            raise check_failed(
                [Rejected(file, open_fault(error))], where=str(checkpoint.root), fix="make the view anew"
            ) from None
        scales |= decode_scales(data, file)
    return scales
