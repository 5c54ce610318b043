"""Keeps vLLM's own native libraries from loading: they hold no code for SM70 and need a newer torch.

An import of one fails as if the file were not there. Three of them vLLM cannot do without: it imports two without a
guard, and its attention layers only if the third exists. These become empty modules; operators are defined apart.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder
from types import ModuleType

EMPTY = frozenset({"vllm._C_stable_libtorch", "vllm._moe_C_stable_libtorch", "vllm.vllm_flash_attn._vllm_fa2_C"})
ORIGIN = "kept out by the volta platform"


class EmptyModule(Loader):
    """A module with nothing in it."""

    def exec_module(self, module: ModuleType) -> None:
        """Leave it empty."""


class NativeGate(MetaPathFinder):
    """Stands before Python's own finders and answers for compiled modules of the package `vllm` alone."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """An empty module, or an ImportError, for a native library of vLLM; None for everything else."""
        if not name.startswith("vllm."):
            return None
        if name in EMPTY:
            return ModuleSpec(name, EmptyModule(), origin=ORIGIN)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, ExtensionFileLoader):
            raise ImportError(f"{name} is {ORIGIN}", name=name, path=spec.origin)
        return None


def close_gate() -> None:
    """Put the gate in place, once. Raises RuntimeError if one of the libraries is loaded already."""
    loaded = sorted(
        name
        for name, module in list(sys.modules.items())
        if name.startswith("vllm.") and (getattr(module, "__file__", None) or "").endswith(".so")
    )
    if loaded:
        raise RuntimeError(f"{', '.join(loaded)} was loaded before the volta platform could keep it out")
    if not any(isinstance(finder, NativeGate) for finder in sys.meta_path):
        sys.meta_path.insert(0, NativeGate())
