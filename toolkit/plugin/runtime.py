"""What a worker is in vLLM's own terms, on any platform; and all of it on a CPU."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from toolkit.planning.worker_report import Runtime

MAPS = Path("/proc/self/maps")


def engine_facts(vllm_config: Any) -> dict[str, Any]:
    """The fields of a Runtime that vLLM's configuration and platform tell, as they are now."""
    from vllm.platforms import current_platform

    compilation = vllm_config.compilation_config
    return {
        "platform": f"{type(current_platform).__module__}.{type(current_platform).__qualname__}",
        "compilation": compilation.mode.name,
        "graphs": compilation.cudagraph_mode.name,
        "capture_sizes": tuple(compilation.cudagraph_capture_sizes or ()),
        "kv_blocks": vllm_config.cache_config.num_gpu_blocks,
        "recurrent": tuple(sorted(_recurrent(compilation.static_forward_context))),
    }


def cpu_runtime(vllm_config: Any) -> Runtime:
    """What a worker on a CPU took; vLLM's operators there are its own."""
    import vllm

    return Runtime(
        device=platform.machine(),
        capability="",
        operators=(),
        native_libraries=tuple(sorted(mapped_libraries(list(vllm.__path__)))),
        **engine_facts(vllm_config),
    )


def mapped_libraries(folders: Sequence[str]) -> set[str]:
    """Shared libraries in this process that lie below one of the folders."""
    paths = {line.split(maxsplit=5)[-1] for line in MAPS.read_text(encoding="utf-8").splitlines() if ".so" in line}
    return {path for path in paths if any(Path(path).is_relative_to(folder) for folder in folders)}


def _recurrent(layers: dict[str, Any]) -> list[tuple[str, str]]:
    """Layers with a recurrent state, and what computes them."""
    from vllm.model_executor.layers.mamba.abstract import MambaBase

    return [(name, type(layer).__qualname__) for name, layer in layers.items() if isinstance(layer, MambaBase)]
