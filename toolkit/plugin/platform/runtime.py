"""What a worker on the GPU really is: for its report, once it has warmed up."""

from __future__ import annotations

import sys
from typing import Any

from toolkit.native import library
from toolkit.planning.worker_report import Runtime
from toolkit.plugin.kernels import launched_kernels
from toolkit.plugin.operators.define import define_upstream_operators
from toolkit.plugin.platform.v100 import V100Platform
from toolkit.plugin.runtime import engine_facts, mapped_libraries


def runtime_of(vllm_config: Any) -> Runtime:
    """The worker's platform, device, libraries, graphs and cache blocks, as they are now."""
    import torch
    import vllm
    from vllm.platforms import current_platform

    ours = isinstance(current_platform, V100Platform)
    return Runtime(
        device=torch.cuda.get_device_name(),
        capability="{}.{}".format(*torch.cuda.get_device_capability()),
        operators=tuple(sorted(define_upstream_operators().called)) if ours else (),
        native_libraries=tuple(sorted(mapped_libraries([*vllm.__path__, str(library.find().parent)]))),
        triton_kernels=tuple(sorted(launched_kernels(sys.modules, torch.cuda.current_device()))),
        **engine_facts(vllm_config),
    )
