"""What a process of vLLM is like once it has its platform and its plugins; run with and without ours."""

import json
import os
import sys
from types import ModuleType

import torch
import vllm

before = dict(os.environ)
for name in ("vllm._C_stable_libtorch", "vllm._moe_C_stable_libtorch"):
    if sys.argv[1:]:  # where they do not load: their newer CUDA is not here
        sys.modules[name] = ModuleType(name)

from vllm.platforms import current_platform  # noqa: E402
from vllm.plugins import load_general_plugins  # noqa: E402

load_general_plugins()
from vllm.v1.attention.backends.registry import AttentionBackendEnum  # noqa: E402

backends = {each.name: each.get_path() if each.value else None for each in AttentionBackendEnum}
operators = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith(("_C", "_moe_C", "volta"))]
print(
    json.dumps(
        {
            "vllm": vllm.__version__,
            "platform": f"{type(current_platform).__module__}.{type(current_platform).__qualname__}",
            "environment": {name: value for name, value in os.environ.items() if before.get(name) != value},
            "finders": [getattr(each, "__name__", type(each).__name__) for each in sys.meta_path],
            "operators": sorted(operators),
            "backends": backends,
            "natives": sorted(name for name in sys.modules if name.startswith("vllm._")),
            "ours": sorted(name for name in sys.modules if name.split(".")[0] == "toolkit"),
        }
    )
)
