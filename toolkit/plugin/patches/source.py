"""Whether a piece of upstream's source is the one that a patch was written for."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from typing import Any


def digest(function: Callable[..., Any]) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of a function's source text."""
    return hashlib.sha256(inspect.getsource(function).encode()).hexdigest()[:16]


def require(function: Callable[..., Any], expected: str) -> None:
    """Raise RuntimeError unless the function's source has that digest."""
    found = digest(function)
    if found != expected:
        name = f"{function.__module__}.{function.__qualname__}"
        raise RuntimeError(
            f"the patch of {name} was written for a source with digest {expected}, and this one has {found}: "
            "use the vLLM release that the plugin names"
        )
