"""The engine's own line about its capacity, against the plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from toolkit.planning.capacity import plan_capacity, plan_pool
from toolkit.planning.capacity.engine_log import Reported, blocks_apart, reported_in

Make = Callable[..., Any]
LINE = (
    "(EngineCore pid=2829) INFO 11-29 13:57:14 [kv_cache_utils.py:2327] CPU KV cache size: 93,184 tokens, "
    "Maximum concurrency for 2,048 tokens per request: 45.50x"
)


def test_the_line_is_read() -> None:
    assert reported_in(f"before\n{LINE}\nafter") == Reported(93_184, 2_048, 45.5)


def test_of_several_lines_the_last_counts() -> None:
    assert reported_in(LINE + "\n" + LINE.replace("93,184", "1")) == Reported(1, 2_048, 45.5)


def test_a_log_without_the_line() -> None:
    assert reported_in("INFO GPU KV cache size is unknown") is None


def test_the_plan_of_smollm2_and_the_engine_agree(deployment: Make, geometry: Make) -> None:
    config = deployment(kv="fp8_e4m3", limits={"max_model_len": 2048})
    reported = reported_in(LINE)
    assert reported is not None
    assert blocks_apart(plan_capacity(config, geometry("smollm2"), 2**30), reported) == 0
    assert blocks_apart(plan_capacity(config, geometry("smollm2"), None), reported) is None


@pytest.mark.parametrize("apart", [-2, -1, 0, 1, 2])
def test_a_difference_is_counted_in_blocks(v100: Make, geometry: Make, apart: int) -> None:
    pool = plan_pool(v100(speculative="mtp3"), geometry("qwen38_flash_next_nvfp4"))
    blocks = 547
    reported = Reported(pool.tokens(blocks + apart), pool.max_model_len, 0.0)
    assert blocks_apart(pool.capacity(blocks * pool.bytes_per_block), reported) == apart
