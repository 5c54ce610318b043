"""The Triton kernels that this process has launched.

They are found through the modules that define them: once a worker has warmed up, vLLM freezes the heap, and Python's
garbage collector lists none of its objects any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

PACKAGES = ("vllm.", "toolkit.")
WRAPPERS = 16
"""An autotuner around several heuristics around a kernel is usual."""


def launched_kernels(modules: Mapping[str, object], device: int) -> set[str]:
    """Kernels of vLLM's modules and ours that hold code for a device, by module and name.

    modules: as `sys.modules`.
    """
    from triton import JITFunction

    found = set()
    for value in _values(modules):
        kernel = _kernel(value, JITFunction)
        if kernel is not None and device in kernel.device_caches and str(kernel.__module__).startswith(PACKAGES):
            found.add(f"{kernel.__module__}.{kernel.__name__}")
    return found


def _values(modules: Mapping[str, object]) -> Iterator[object]:
    """What modules and their classes hold: a kernel is a function of either."""
    for name, module in tuple(modules.items()):
        if name.startswith(PACKAGES):
            with suppress(AttributeError):
                for value in tuple(object.__getattribute__(module, "__dict__").values()):
                    yield value
                    if issubclass(type(value), type):
                        yield from map(_function, tuple(vars(value).values()))


def _function(held: Any) -> Any:
    """What a class holds, without its wrapper; nothing of a foreign object is asked, as placeholders raise."""
    return held.__func__ if issubclass(type(held), (staticmethod, classmethod)) else held


def _kernel(value: Any, kind: type) -> Any:
    """The kernel that a value is or wraps; None for anything else."""
    for _ in range(WRAPPERS):
        if issubclass(type(value), kind):
            return value
        if not type(value).__module__.startswith("triton."):
            return None
        value = getattr(value, "fn", None)
    return None
