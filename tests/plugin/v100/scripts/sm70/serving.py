"""The kernels that serving can launch: those of every module that the paths of engine=v100 load."""

from __future__ import annotations

import gc
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import triton

MODELS = ("llama", "qwen2", "qwen3", "qwen3_moe", "qwen3_next", "qwen3_next_mtp", "qwen3_5", "qwen3_5_mtp")
DRAFTING = ("mtp", "ngram", "standalone_ar")
MODULES = (
    "vllm.v1.worker.gpu.model_runner",
    "vllm.v1.worker.gpu_worker",
    "vllm.v1.attention.backends.triton_attn",
    "vllm.v1.attention.backends.gdn_attn",
    "vllm.lora.punica_wrapper.punica_gpu",
    "vllm.v1.worker.gpu.mm.rope",
    "vllm.v1.worker.gpu.model_states.mamba_hybrid",
    *(f"vllm.model_executor.models.{name}" for name in MODELS),
    *(f"vllm.v1.worker.gpu.spec_decode.{name}.speculator" for name in DRAFTING),
)
LAUNCH = re.compile(r"\b([A-Za-z_]\w*)\[")
DECLARED = re.compile(r"\bkernel=([A-Za-z_]\w*)")


def loaded_kernels() -> list[str]:
    """By module and name; what no module launches is a function that kernels call."""
    for module in MODULES:
        importlib.import_module(module)
    functions = {each for each in gc.get_objects() if issubclass(type(each), triton.JITFunction)}
    launched = {name for source in _sources() for which in (LAUNCH, DECLARED) for name in which.findall(source)}
    return sorted(
        f"{each.__module__}.{each.__name__}"
        for each in functions
        if each.__module__.startswith("vllm.") and each.__name__ in launched
    )


def _sources() -> Iterator[str]:
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if name.startswith("vllm.") and file.endswith(".py"):
            yield Path(file).read_text(encoding="utf-8")
