"""The kernels that serving can launch: those of every module that the paths of engine=v100 load, at once or later."""

from __future__ import annotations

import ast
import gc
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import triton
import vllm

from toolkit.plugin.kernels import launched_kernels

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
ROOT = Path(vllm.__file__).parent
CALLED = re.compile(r"\b([A-Za-z_]\w*)\(")


def loaded_kernels() -> list[str]:
    """By module and name: of the modules that are loaded, and of those that they import only when they need them."""
    for module in MODULES:
        importlib.import_module(module)
    return sorted({*_compiled_functions(), *_later()})


def _compiled_functions() -> Iterator[str]:
    """Those of loaded modules; one that another calls is a part of it, and is never launched."""
    functions = {each for each in gc.get_objects() if issubclass(type(each), triton.JITFunction)}
    theirs = [each for each in functions if each.__module__.startswith("vllm.")]
    parts = {name for each in theirs for name in CALLED.findall(each.src.partition(":\n")[2])}
    yield from (f"{each.__module__}.{each.__name__}" for each in theirs if each.__name__ not in parts)


def _later() -> Iterator[str]:
    """Those of modules that an import within a function can bring, read and not run: some need what is not here."""
    files = {_name(path): path for path in ROOT.rglob("*.py")}
    known = {name for name in files if name in sys.modules}
    waiting = list(known)
    while waiting:
        name = waiting.pop()
        tree = ast.parse(files[name].read_text(encoding="utf-8"))
        if name not in sys.modules:
            yield from (f"{name}.{kernel}" for kernel in _kernels(tree))
        fresh = {each for each in _imported(name, files[name], tree) if each in files} - known
        known |= fresh
        waiting += fresh


def _name(path: Path) -> str:
    parts = ("vllm", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(module: str, path: Path, tree: ast.Module) -> Iterator[str]:
    """Names of modules, and some that are none: what is imported from a module may be one itself."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            before = package[: len(package) + 1 - node.level] if node.level else []
            source = ".".join([*before, *filter(None, [node.module])])
            yield from (source, *(f"{source}.{each.name}" for each in node.names))


def _kernels(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any("triton.jit" in ast.unparse(each) for each in node.decorator_list):
            yield node.name


def unreported_kernels() -> list[str]:
    """Kernels of loaded modules that a worker leaves out, though each holds code and vLLM has frozen the heap."""
    loaded = set(_compiled_functions())
    for each in gc.get_objects():
        if issubclass(type(each), triton.JITFunction):
            each.device_caches[0] = None
    gc.freeze()
    return sorted(loaded - launched_kernels(sys.modules, 0))
