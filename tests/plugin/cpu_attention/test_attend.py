"""Attention of one sequence against float64, over what a layer can add and over shapes that sit on edges."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from attention_reference import Case, assert_close  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from toolkit.plugin.cpu_attention.attend import SCORES_PER_TILE, Rules, Span, attend, visible  # noqa: E402


def make(rows, context, *, heads=4, kv_heads=2, size=32, seed=0, **extra):
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(rows, heads, size, generator=generator)
    keys, values = torch.randn(2, context, kv_heads, size, generator=generator)
    return Case(query, keys, values, scale=size**-0.5, **extra)


def run(case):
    rules = Rules(case.window, case.soft_cap, case.slopes, case.sinks)
    rows, context = len(case.query), len(case.keys)
    span = visible(case.window, case.causal, context, Span(context - rows, context))
    keys, values = (part[span.first : span.last].transpose(0, 1).contiguous() for part in (case.keys, case.values))
    return attend(case.query * case.scale, keys, values, rules, causal=case.causal, context=context)


SLOPES = torch.tensor([0.5, 0.25, 0.125, 0.01])
SINKS = torch.tensor([0.0, 3.0, -2.0, 20.0])


@pytest.mark.parametrize(("rows", "context"), [(1, 1), (1, 33), (5, 5), (7, 64), (64, 65), (33, 200)])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [None, 1, 16, 1000])
@pytest.mark.parametrize("soft_cap", [None, 2.0])
@pytest.mark.parametrize("slopes", [None, SLOPES], ids=["", "alibi"])
@pytest.mark.parametrize("sinks", [None, SINKS], ids=["", "sinks"])
def test_every_combination(*, rows, context, causal, window, soft_cap, slopes, sinks):
    case = make(rows, context, causal=causal, window=window, soft_cap=soft_cap, slopes=slopes, sinks=sinks)
    assert_close(run(case), case)


@pytest.mark.parametrize("window", [None, 100])
@pytest.mark.parametrize("causal", [True, False])
def test_a_long_prompt_in_several_tiles(causal, window):
    case = make(900, 1300, heads=6, kv_heads=3, causal=causal, window=window)
    assert 3 * SCORES_PER_TILE < 6 * 900 * 1300
    assert_close(run(case), case)


def test_scores_are_made_a_row_at_a_time_where_a_row_fills_a_tile():
    context = SCORES_PER_TILE // 2 + 1
    case = make(2, context, heads=2, kv_heads=1, size=2)
    assert_close(run(case), case)


def test_bfloat16_sinks_are_taken():
    case = make(3, 9, sinks=SINKS.bfloat16())
    assert_close(run(case), case)


@pytest.mark.parametrize("rows", [1, 4])
def test_an_empty_encoder_gives_zeros(rows):
    assert not run(make(rows, 0, causal=False)).any()


def test_more_queries_than_encoder_positions():
    case = make(6, 2, causal=False)
    assert_close(run(case), case)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [None, 1, 5])
def test_what_is_visible_is_what_some_query_sees(causal, window):
    for context in range(1, 12):
        for begin in range(context):
            seen = {
                key
                for query in range(begin, context)
                for key in range(context)
                if (key <= query or not causal) and (window is None or abs(key - query) < window)
            }
            span = visible(window, causal, context, Span(begin, context))
            assert set(range(span.first, span.last)) == seen


@given(
    context=st.integers(1, 90),
    share=st.floats(0, 1),
    kv_heads=st.integers(1, 3),
    group=st.integers(1, 4),
    size=st.sampled_from([1, 8, 33, 64]),
    causal=st.booleans(),
    window=st.none() | st.integers(1, 100),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=150, deadline=None)
def test_random_shapes(*, context, share, kv_heads, group, size, causal, window, seed):
    rows = max(1, round(share * context))
    case = make(
        rows, context, heads=kv_heads * group, kv_heads=kv_heads, size=size, causal=causal, window=window, seed=seed
    )
    assert_close(run(case), case)
