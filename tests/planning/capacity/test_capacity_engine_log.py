"""The engine's own line about its capacity, against the plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from toolkit.planning.capacity import plan_capacity, plan_pool
from toolkit.planning.capacity.engine_log import Comparison, Reported, blocks_apart, blocks_of, compare, reported_in
from toolkit.planning.plan import Severity

Make = Callable[..., Any]
LINE = (
    "(EngineCore pid=2829) INFO 11-29 13:57:14 [kv_cache_utils.py:2327] CPU KV cache size: 93,184 tokens, "
    "Maximum concurrency for 2,048 tokens per request: 45.50x"
)

AVAILABLE = "(EngineCore pid=2829) INFO 11-29 13:57:12 [gpu_worker.py:760] Available KV cache memory: 6.11 GiB"


def test_the_line_is_read() -> None:
    assert reported_in(["before", LINE, "after"]) == Reported(93_184, 2_048, 45.5)


def test_of_several_lines_the_last_counts() -> None:
    assert reported_in([LINE, LINE.replace("93,184", "1")]) == Reported(1, 2_048, 45.5)


def test_a_log_without_the_line() -> None:
    assert reported_in(["INFO GPU KV cache size is unknown", AVAILABLE]) is None


def test_the_plan_of_smollm2_and_the_engine_agree(deployment: Make, geometry: Make) -> None:
    config = deployment(kv="fp8_e4m3", limits={"max_model_len": 2048})
    reported = reported_in([LINE])
    assert reported is not None
    assert blocks_apart(plan_capacity(config, geometry("smollm2"), 2**30), reported) == 0
    assert blocks_apart(plan_capacity(config, geometry("smollm2"), None), reported) is None


@pytest.mark.parametrize("apart", [-2, -1, 0, 1, 2])
def test_a_difference_is_counted_in_blocks(v100: Make, geometry: Make, apart: int) -> None:
    pool = plan_pool(v100(speculative="mtp3"), geometry("qwen38_flash_next_nvfp4"))
    blocks = 547
    reported = Reported(pool.tokens(blocks + apart), pool.max_model_len, 0.0)
    assert blocks_apart(pool.capacity(blocks * pool.bytes_per_block), reported) == apart


@pytest.mark.parametrize("apart", range(-3, 4))
def test_more_than_one_block_is_a_finding(v100: Make, geometry: Make, apart: int) -> None:
    pool = plan_pool(v100(speculative="mtp3"), geometry("qwen38_flash_next_nvfp4"))
    planned = pool.capacity(547 * pool.bytes_per_block)
    reported = Reported(pool.tokens(547 + apart), pool.max_model_len, 0.0)
    found = compare(planned, pool.max_model_len, reported)
    assert (found.blocks, found.blocks_apart) == (547 + apart, apart)
    assert [finding.rule for finding in found.findings] == ["capacity-differs"] * (abs(apart) > 1)
    if apart == -3:
        assert found.findings[0].message == (
            f"it reports a KV cache of {reported.tokens:,} tokens (544 blocks), 3 blocks fewer than planned "
            "(775,096 tokens, 547 blocks)"
        )


def test_profiled_memory_is_held_against_the_blocks_that_it_gave(v100: Make, geometry: Make) -> None:
    pool = plan_pool(v100(speculative="mtp3"), geometry("qwen38_flash_next_nvfp4"))
    planned = pool.capacity(None)  # 11,980,800 bytes a block: 6.11 GiB, to two digits, hold 547 or 548

    def apart(blocks: int, *lines: str) -> Comparison:
        line = f"KV cache size: {pool.tokens(blocks):,} tokens, Maximum concurrency for 262,144 tokens per request: 1x"
        return compare(planned, 262_144, reported_in([*lines, line]))

    assert [apart(blocks, AVAILABLE).blocks_apart for blocks in (544, 546, 547, 548, 551)] == [-3, -1, 0, 0, 3]
    assert "3 blocks more than 6.11 GiB hold" in apart(551, AVAILABLE).findings[0].message
    assert apart(547, AVAILABLE.replace("6.11", "7.00"), AVAILABLE).blocks_apart == 0, "the rank with least counts"
    assert (apart(551).blocks, apart(551).blocks_apart, apart(551).findings) == (551, None, ())


def test_a_shorter_context_than_planned_is_told_and_blocks_are_not_compared(v100: Make, geometry: Make) -> None:
    planned = plan_pool(v100(speculative="mtp3"), geometry("qwen38_flash_next_nvfp4")).capacity(2**33)
    found = compare(planned, 262_144, Reported(775_096, 131_072, 5.9))
    assert (found.blocks_apart, [finding.rule for finding in found.findings]) == (None, ["context-differs"])
    assert "131,072" in found.findings[0].message
    assert "262,144" in found.findings[0].message


def test_an_engine_that_reports_nothing_is_no_silent_agreement() -> None:
    found = compare(None, 2048, None)
    assert [(item.rule, item.severity) for item in found.findings] == [("capacity-not-reported", Severity.info)]


def test_without_a_planned_capacity_the_report_is_kept() -> None:
    reported = reported_in([LINE])
    assert compare(None, 2048, reported) == Comparison(reported, None, None, ())


def test_blocks_follow_from_tokens_whatever_the_engine_rounded(deployment: Make, geometry: Make) -> None:
    pool = plan_pool(deployment(kv="fp8_e4m3", limits={"max_model_len": 2000}), geometry("smollm2"))
    for blocks in range(1, 300):
        assert blocks_of(pool.capacity(None), Reported(pool.tokens(blocks), 2000, 0.0)) == blocks
