"""Grouping alone against the engine's, over caches that no model of today combines: unequal pages, odd counts."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

pytest.importorskip("vllm")

from engine_oracle import group_answer

from toolkit.errors import ConfigurationError
from toolkit.planning.capacity.caches import (
    Cache,
    CompressedCache,
    FullCache,
    Load,
    RingCache,
    SlidingCache,
    StateCache,
)
from toolkit.planning.capacity.grouping import Layout, group_layers
from toolkit.planning.capacity.pool import pool_of

EXTRA_TOKENS = 2
BLOCKS = st.sampled_from((16, 32, 48))
HEADS = st.sampled_from((1, 2, 3))
DIMS = st.sampled_from((64, 96, 128))
DTYPES = st.sampled_from(("float16", "fp8_e4m3"))

full = st.builds(FullCache, BLOCKS, HEADS, DIMS, DIMS, DTYPES, st.booleans())
compressed = st.builds(
    CompressedCache, BLOCKS, st.just(1), DIMS, st.just(0), DTYPES, tokens_per_state=st.sampled_from((1, 4, 8))
)
ring = st.builds(RingCache, st.sampled_from((4, 8)), st.just(1), DIMS, st.just(0), DTYPES)
windows = st.sampled_from((32, 64, 1000))
sliding = st.builds(SlidingCache, BLOCKS, HEADS, DIMS, DIMS, DTYPES, window=windows, extra_tokens=st.just(EXTRA_TOKENS))
state = st.builds(
    StateCache,
    st.sampled_from((16, 4096)),
    st.integers(1, 60_000),
    st.integers(1, 4),
    st.booleans(),
    st.none() | st.just(65_536),
)


@st.composite
def layers(draw: st.DrawFn) -> dict[str, Cache]:
    """One to five kinds of layers in any number, in blocks or interleaved; often at one block size, as models are."""
    kinds = draw(st.lists(st.one_of(full, compressed, ring, sliding, state), min_size=1, max_size=5))
    counts = [draw(st.integers(1, 14)) for _ in kinds]
    names = [(kind, index) for kind, count in enumerate(counts) for index in range(count)]
    if draw(st.booleans()):
        names.sort(key=lambda name: (name[1], name[0]))
    return {f"{kind}.{index}": kinds[kind] for kind, index in names}


def repeated(kinds: dict[str, tuple[int, Cache]]) -> dict[str, Cache]:
    return {f"{name}.{index}": cache for name, (count, cache) in kinds.items() for index in range(count)}


# A pattern of two page sizes, and a type of another block length whose page sizes have unequal counts.
UNEVEN = repeated(
    {
        "wide": (4, FullCache(16, 2, 64, 64, "float16")),
        "narrow": (4, FullCache(16, 1, 64, 64, "float16")),
        "many": (9, FullCache(32, 1, 96, 96, "float16")),
        "few": (2, FullCache(32, 3, 96, 96, "float16")),
    }
)


@example(UNEVEN, Layout.blocks_outermost, 1000, 100, 2.0)
@given(layers(), st.sampled_from(Layout), st.integers(1, 20_000), st.integers(1, 5000), st.floats(1, 20))
@settings(
    max_examples=300,
    report_multiple_bugs=False,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
def test_grouping_is_the_engines(
    caches: dict[str, Cache], layout: Layout, length: int, in_flight: int, times: float
) -> None:
    load = Load(length, in_flight)
    engine_layout = "LBNHC" if layout is Layout.layers_outermost else "BLNHC"
    kinds = {type(cache) for cache in caches.values()}
    try:
        groups = group_layers(caches, layout)
    except ConfigurationError:
        # The engine gives up too, or keeps every token of sliding layers, which no model that is planned here needs.
        assume(SlidingCache not in kinds)
        with pytest.raises((NotImplementedError, AssertionError, StopIteration)):
            group_answer(caches, load, engine_layout, EXTRA_TOKENS, 2**40)
        return
    pool = pool_of(groups, load, 16)
    memory = int(pool.smallest_memory * times)
    engine, ours = group_answer(caches, load, engine_layout, EXTRA_TOKENS, memory), pool.capacity(memory)
    assert (len(groups), pool.bytes_per_block, ours.blocks) == (engine.groups, engine.bytes_per_block, engine.blocks)
    assert (ours.tokens, ours.concurrency) == (engine.tokens, engine.concurrency)
