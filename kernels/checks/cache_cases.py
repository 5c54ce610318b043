"""Cases of the operators with upstream's signatures: cache writes, the prefix and suffix merge, block swaps."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from kernels.checks import kv_cache, merge, reshape, swap
from kernels.checks.case import TYPE_NAMES as _NAMES
from kernels.checks.case import Case
from kernels.checks.case import case as _case
from kernels.checks.compare import FLOAT, HALF


def cases() -> Iterator[Case]:
    """All of them, in a fixed order."""
    return itertools.chain(_reshape(), _states(), _swap())


def _reshape() -> Iterator[Case]:
    for name, layout, (number, shape) in itertools.product(
        reshape.NAMES, kv_cache.LAYOUTS, enumerate(kv_cache.SHAPES[:4])
    ):
        label = f"reshape_and_cache_flash-{name}-{layout}-shape{number}"
        yield _case(label, reshape.flash, name, layout, shape, per_head=False)
    for name, run, (number, shape) in itertools.product(
        ("auto", "fp8", "fp8_e5m2"), reshape.RUNS, enumerate(kv_cache.SHAPES[:4])
    ):
        yield _case(f"reshape_and_cache-{name}-run{run}-shape{number}", reshape.split, name, run, shape, per_head=False)
    for name in ("fp8", "fp8_e5m2"):
        shape = kv_cache.SHAPES[1]
        yield _case(f"reshape_and_cache_flash-{name}-per-head", reshape.flash, name, "NHD", shape, per_head=True)
        yield _case(f"reshape_and_cache-{name}-per-head", reshape.split, name, 16, shape, per_head=True)


def _states() -> Iterator[Case]:
    for dtype, (number, shape) in itertools.product((HALF, FLOAT), enumerate(merge.SHAPES)):
        for context in (None, *sorted({0, shape.tokens // 2, shape.tokens})):
            label = f"merge_attn_states-{_NAMES[dtype]}-shape{number}-context-{context}"
            yield _case(label, merge.states, dtype, shape, context=context)
    yield Case("merge_attn_states-nan", lambda device, _seed: merge.states_with_nan(device))


def _swap() -> Iterator[Case]:
    yield _case("swap_blocks", swap.blocks)
    yield _case("swap_blocks_batch", swap.batch)
