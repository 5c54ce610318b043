"""What a worker of the engine reports of itself: plain data, written by the plugin, read into the receipt.

A new fact is a new field with a default, so that reports of an older plugin are still read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

WORKER_REPORT_SCHEMA = 1
WORKERS_FOLDER = "workers"
"""Folder of the reports inside the run's folder, which is the engine's working directory."""

_LAYER = re.compile(r"(?P<before>(?:.*\.)?)layers\.(?P<number>[0-9]{1,9})\.")
DRAFT = "mtp"
"""What marks the checkpoint's own next-token layers, in its tensors' names and in the engine's."""
DRAFT_MODEL = "draft_model."
"""How the engine's names of a separate draft model's layers begin; no scale of the target is theirs."""


@dataclass(frozen=True, order=True)
class LayerKey:
    """An attention layer, whatever a checkpoint or the engine puts around its number."""

    draft: bool
    """One of the checkpoint's own next-token (MTP) layers."""
    number: int


@dataclass(frozen=True)
class AttentionLayer:
    """One attention layer that keeps a KV cache, as the engine uses it."""

    name: str
    """The engine's name, such as `model.layers.0.self_attn.attn`."""
    backend: str
    """The class that computes its attention."""
    kv_dtype: str
    """The engine's spelling: `auto`, `fp8_e4m3`, ..."""
    k_scale: tuple[float, ...]
    """The tensor that kernels read: one number a layer, or one a head."""
    v_scale: tuple[float, ...]
    k_scale_host: float
    """The copy that is passed to kernels as an argument."""
    v_scale_host: float
    shares: str | None = None
    """The layer whose cache it reads, where it keeps none of its own."""


@dataclass(frozen=True)
class Runtime:
    """What a worker took: its platform, device, libraries, graphs and cache."""

    platform: str
    """The class that vLLM asks what the device can do."""
    device: str
    capability: str
    """The GPU's own, whatever the platform reports; empty on a CPU."""
    operators: tuple[str, ...]
    """Upstream's operators that were called, by upstream's name; all of them are ours."""
    native_libraries: tuple[str, ...]
    """Loaded shared libraries of vLLM and of ours."""
    compilation: str
    graphs: str
    """vLLM's names of its compilation and CUDA graph modes."""
    capture_sizes: tuple[int, ...]
    kv_blocks: int | None
    recurrent: tuple[tuple[str, str], ...] = ()
    """Layers with a recurrent state, each with the class that computes it."""
    triton_kernels: tuple[str, ...] = ()
    """vLLM's Triton kernels and ours that were launched in this process, by module and name; those that torch compiled
    into a graph of its own are not among them."""


@dataclass(frozen=True)
class ImportRoot:
    """A folder that modules were imported from, as an entry of the import path would name it."""

    folder: str
    modules: tuple[str, ...]
    """The first few, by name; in full where a module's file does not lie where its name says."""
    count: int
    """How many there are."""
    generated: bool = False
    """The process's own libraries wrote them, and no folder of the import path is meant: compiled kernels, and a
    checkpoint's own code as transformers copies it."""


@dataclass(frozen=True)
class WorkerReport:
    """One worker process: what it is made of, and what it really took."""

    rank: int
    world_size: int
    pid: int
    engine: str
    """As the plan named it: `cpu` or `v100`."""
    versions: Mapping[str, str]
    """Of Python and of the packages that decide what is computed."""
    paths: Mapping[str, str]
    """Where those packages were imported from."""
    switches: Mapping[str, bool] = field(default_factory=dict)
    layers: tuple[AttentionLayer, ...] = ()
    unused_scales: tuple[str, ...] = ()
    """Scales of the served folder that no layer of this worker took."""
    runtime: Runtime | None = None
    """None in reports of a plugin that did not tell it."""
    imports: tuple[ImportRoot, ...] = ()
    """Every folder that this process had imported from."""
    requests: int = 0
    """Finished by the time of the report; 0 where it is of the warm-up alone."""
    ended: bool = False
    """It is the last one, of a worker that ended in order."""

    @property
    def file_name(self) -> str:
        """The report's name in WORKERS_FOLDER."""
        return f"rank{self.rank}-pid{self.pid}.json"

    def to_data(self) -> dict[str, Any]:
        """The report as plain data (schema WORKER_REPORT_SCHEMA)."""
        return {"schema": WORKER_REPORT_SCHEMA, **asdict(self)}


def layer_key(name: str) -> LayerKey | None:
    """The layer that a name of the checkpoint or of the engine belongs to; None where it has no number."""
    match = _LAYER.match(name)
    return LayerKey(DRAFT in match["before"].split("."), int(match["number"])) if match else None
