"""A small Triton kernel for gpu_memory.py: each `amount` is a module of its own."""

import triton
import triton.language as tl

VERSION = f"Triton {triton.__version__}"


@triton.jit
def add(x, amount: tl.constexpr, size: tl.constexpr):  # noqa: ANN001, ANN201
    """Add a constant to `size` elements."""
    at = tl.arange(0, size)
    tl.store(x + at, tl.load(x + at) + amount)
