"""What a worker on the GPU really is: for its report, once it has warmed up."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from toolkit.native import library
from toolkit.planning.worker_report import Runtime
from toolkit.plugin.kernels import launched_kernels
from toolkit.plugin.operators.define import define_upstream_operators
from toolkit.plugin.platform.v100 import V100Platform

MAPS = Path("/proc/self/maps")


def runtime_of(vllm_config: Any) -> Runtime:
    """The worker's platform, device, libraries, graphs and cache blocks, as they are now."""
    import torch
    import vllm
    from vllm.platforms import current_platform

    compilation = vllm_config.compilation_config
    ours = isinstance(current_platform, V100Platform)
    return Runtime(
        platform=f"{type(current_platform).__module__}.{type(current_platform).__qualname__}",
        device=torch.cuda.get_device_name(),
        capability="{}.{}".format(*torch.cuda.get_device_capability()),
        operators=tuple(sorted(define_upstream_operators().called)) if ours else (),
        native_libraries=tuple(sorted(_mapped([*vllm.__path__, str(library.find().parent)]))),
        compilation=compilation.mode.name,
        graphs=compilation.cudagraph_mode.name,
        capture_sizes=tuple(compilation.cudagraph_capture_sizes or ()),
        kv_blocks=vllm_config.cache_config.num_gpu_blocks,
        recurrent=tuple(sorted(_recurrent(compilation.static_forward_context))),
        triton_kernels=tuple(sorted(launched_kernels(sys.modules, torch.cuda.current_device()))),
    )


def _mapped(folders: Sequence[str]) -> set[str]:
    """Shared libraries in this process that lie below one of the folders."""
    paths = {line.split(maxsplit=5)[-1] for line in MAPS.read_text(encoding="utf-8").splitlines() if ".so" in line}
    return {path for path in paths if any(Path(path).is_relative_to(folder) for folder in folders)}


def _recurrent(layers: dict[str, Any]) -> list[tuple[str, str]]:
    """Layers with a recurrent state, and what computes them."""
    from vllm.model_executor.layers.mamba.abstract import MambaBase

    return [(name, type(layer).__qualname__) for name, layer in layers.items() if isinstance(layer, MambaBase)]
