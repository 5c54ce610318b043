"""The two numbers that the README promises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from toolkit.planning.capacity import plan_capacity


@pytest.mark.parametrize(("dcp", "tokens", "concurrency"), [("1", 600_052, "2.29"), ("2", 1_061_981, "4.05")])
def test_four_gib_without_drafts_or_prefix_caching(
    v100: Callable[..., Any], geometry: Callable[..., Any], dcp: str, tokens: int, concurrency: str
) -> None:
    config = v100(dcp=dcp, speculative="none", limits={"prefix_caching": False})
    capacity = plan_capacity(config, geometry("qwen38_flash_next_nvfp4"), 4_294_967_296)
    assert capacity.tokens == tokens
    assert f"{capacity.concurrency:.2f}" == concurrency
