"""The worker's report: what it is made of, and each attention layer's cache and scales as they are used."""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from toolkit.planning.worker_report import AttentionLayer, Runtime, WorkerReport
from toolkit.plugin.imports import import_roots
from toolkit.plugin.layers import attention_layers, shared_with
from toolkit.plugin.settings import Settings

MODULES = ("vllm", "torch", "triton", "transformers", "safetensors", "toolkit")
"""What decides what is computed; each is named if this process has imported it."""


def make_report(
    vllm_config: Any,
    settings: Settings,
    *,
    rank: int,
    world_size: int,
    unused_scales: Sequence[str],
    requests: int,
    ended: bool,
    runtime: Runtime | None = None,
) -> WorkerReport:
    """This process's report, as things are now."""
    modules = {name: sys.modules[name] for name in MODULES if name in sys.modules}
    versions = {name: _version(name, module) for name, module in modules.items()}
    return WorkerReport(
        rank=rank,
        world_size=world_size,
        pid=os.getpid(),
        engine=settings.engine,
        versions={"python": platform.python_version(), **versions},
        paths={name: str(Path(module.__file__).parent) for name, module in modules.items() if module.__file__},
        switches=settings.switches,
        layers=tuple(_layer(name, layer) for name, layer in sorted(attention_layers(vllm_config).items())),
        unused_scales=tuple(unused_scales),
        runtime=runtime,
        imports=import_roots(sys.modules, os.environ),
        requests=requests,
        ended=ended,
    )


def write_data(folder: Path, name: str, data: Mapping[str, Any]) -> None:
    """Write a JSON file so that a reader finds it whole or not at all; OSError where that does not work."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, staged = tempfile.mkstemp(dir=folder, prefix=f".{name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(json.dumps(data, indent=1) + "\n")
        Path(staged).replace(folder / name)
    except BaseException:
        Path(staged).unlink(missing_ok=True)
        raise


def _layer(name: str, layer: Any) -> AttentionLayer:
    return AttentionLayer(
        name=name,
        backend=type(layer.impl).__qualname__,
        kv_dtype=str(layer.kv_cache_dtype),
        k_scale=_numbers(layer._k_scale),
        v_scale=_numbers(layer._v_scale),
        k_scale_host=float(layer._k_scale_float),
        v_scale_host=float(layer._v_scale_float),
        shares=shared_with(layer),
    )


def _numbers(tensor: Any) -> tuple[float, ...]:
    return tuple(tensor.detach().reshape(-1).tolist())


def _version(name: str, module: Any) -> str:
    own = getattr(module, "__version__", None)
    if own is not None:
        return str(own)
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"
