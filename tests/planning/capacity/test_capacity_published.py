"""Every published number, to its last digit; ids name the row and its source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from toolkit.planning.capacity import for_concurrency, for_tokens, plan_capacity, plan_pool, with_memory
from toolkit.planning.capacity.grouping import GroupSize
from toolkit.planning.capacity.layers import plan_layers
from toolkit.planning.capacity.pool import Pool

GIB = 2**30
FLASH_NEXT, DENSE = "qwen38_flash_next_nvfp4", "qwen38_27b_nvfp4"
Make = Callable[..., Any]


def drafting(tokens: int) -> dict[str, Any]:
    return {"method": "mtp" if tokens == 3 else "ngram" if tokens else "none", "tokens": tokens}


@pytest.mark.parametrize("model", [FLASH_NEXT, DENSE])
@pytest.mark.parametrize(
    ("kv", "drafts", "state", "least_tokens", "block"),
    [
        pytest.param("fp8_e4m3", 0, 801_792, 1566, 1568, id="fp8-k0"),
        pytest.param("float16", 0, 801_792, 783, 784, id="fp16-k0"),
        pytest.param("fp8_e4m3", 3, 817_152, 1596, 1600, id="fp8-mtp3"),
        pytest.param("fp8_e4m3", 4, 822_272, 1606, 1616, id="fp8-k4"),
        pytest.param("fp8_e4m3", 7, 837_632, 1636, 1648, id="fp8-dflash2"),
        pytest.param("float16", 7, 837_632, 818, 832, id="fp16-dflash2"),
    ],
)
def test_state_bytes_and_block_size(
    *, v100: Make, geometry: Make, model: str, kv: str, drafts: int, state: int, least_tokens: int, block: int
) -> None:
    plan = plan_layers(v100(kv=kv, speculative=drafting(drafts)), geometry(model))
    assert plan.state_bytes[0] == state
    assert state == least_tokens * plan.token_bytes
    assert plan.block_tokens == block


LAYOUTS = {
    "dcp1": {"size": 1},
    "span": {"size": 2, "packed_pages": False},
    "packed": {"size": 2, "packed_pages": True},
}


def sparse_pool(v100: Make, geometry: Make, layout: str, drafts: int, length: int = 262_144) -> Pool:
    """Flash-Next with prefix caching and three drafts, or with neither."""
    limits = {"max_model_len": length, "prefix_caching": drafts > 0}
    config = v100(dcp=LAYOUTS[layout], speculative=drafting(drafts), limits=limits)
    return plan_pool(config, geometry(FLASH_NEXT))


@pytest.mark.parametrize(
    ("layout", "length", "blocks", "per_request", "tokens", "concurrency"),
    [
        pytest.param("dcp1", 262_144, 547, 185, 775_096, "2.96", id="pr702-dcp1-256k"),
        pytest.param("span", 262_144, 449, 103, 1_142_744, None, id="pr702-old-span-256k"),
        pytest.param("packed", 262_144, 899, 200, 1_178_337, "4.50", id="pr702-packed-measured"),
        pytest.param("packed", 262_144, 898, 200, 1_177_026, None, id="pr702-packed-projection"),
        pytest.param("dcp1", 32_768, 508, 42, 396_336, None, id="pr702-dcp1-32k"),
        pytest.param("span", 32_768, 429, 32, 439_296, None, id="pr702-old-span-32k"),
    ],
)
def test_flash_next_with_three_drafts(
    *,
    v100: Make,
    geometry: Make,
    layout: str,
    length: int,
    blocks: int,
    per_request: int,
    tokens: int,
    concurrency: str | None,
) -> None:
    pool = sparse_pool(v100, geometry, layout, drafts=3, length=length)
    capacity = pool.capacity(blocks * pool.bytes_per_block)
    assert (capacity.blocks, capacity.blocks_per_request) == (blocks, per_request)
    assert capacity.tokens == tokens
    assert concurrency is None or f"{capacity.concurrency:.2f}" == concurrency


@pytest.mark.parametrize(
    ("layout", "drafts", "size"),
    [
        pytest.param("dcp1", 3, 11_980_800, id="dcp1-mtp3"),
        pytest.param("span", 3, 14_131_200, id="old-span-mtp3"),
        pytest.param("packed", 3, 7_065_600, id="packed-mtp3"),
        pytest.param("dcp1", 0, 10_838_016, id="dcp1-mtp0"),
        pytest.param("packed", 0, 6_021_120, id="packed-mtp0"),
    ],
)
def test_flash_next_bytes_per_block(v100: Make, geometry: Make, layout: str, drafts: int, size: int) -> None:
    assert sparse_pool(v100, geometry, layout, drafts).bytes_per_block == size


def test_the_projection_is_the_memory_of_the_old_blocks(v100: Make, geometry: Make) -> None:
    old = sparse_pool(v100, geometry, "span", drafts=3)
    packed = sparse_pool(v100, geometry, "packed", drafts=3)
    assert old.bytes_per_block == 2 * packed.bytes_per_block
    assert with_memory(packed, 449 * old.bytes_per_block).tokens == 1_177_026


@pytest.mark.parametrize(
    ("layout", "blocks", "per_request", "tokens", "concurrency", "used_gib"),
    [
        pytest.param("dcp1", 396, 173, 600_052, "2.29", "3.9971", id="oct2026-4gib-dcp1"),
        pytest.param("packed", 713, 176, 1_061_981, "4.05", "3.9982", id="oct2026-4gib-dcp2"),
    ],
)
def test_four_gib(
    *,
    v100: Make,
    geometry: Make,
    layout: str,
    blocks: int,
    per_request: int,
    tokens: int,
    concurrency: str,
    used_gib: str,
) -> None:
    pool = sparse_pool(v100, geometry, layout, drafts=0)
    capacity = pool.capacity(4 * GIB)
    assert (capacity.blocks, capacity.blocks_per_request) == (blocks, per_request)
    assert capacity.tokens == tokens
    assert f"{capacity.concurrency:.2f}" == concurrency
    assert f"{blocks * pool.bytes_per_block / GIB:.4f}" == used_gib


def test_what_dcp2_gains_in_four_gib(v100: Make, geometry: Make) -> None:
    one, two = (with_memory(sparse_pool(v100, geometry, layout, 0), 4 * GIB).tokens for layout in ("dcp1", "packed"))
    assert f"{100 * (two / one - 1):.2f}" == "76.98"


@pytest.mark.parametrize(("layout", "quantum"), [("dcp1", 1600), ("span", 3200), ("packed", 1600)])
def test_the_shortest_prefix_that_is_reused_is_a_block(v100: Make, geometry: Make, layout: str, quantum: int) -> None:
    assert sparse_pool(v100, geometry, layout, drafts=3).block_tokens == quantum


@pytest.mark.parametrize(("layout", "block"), [("dcp1", 1616), ("packed", 1632)])
def test_a_block_that_two_ranks_share_is_a_multiple_of_both_ranks_kernel_blocks(
    v100: Make, geometry: Make, layout: str, block: int
) -> None:
    config = v100(dcp=LAYOUTS[layout], speculative={"method": "mtp", "tokens": 4})
    assert plan_layers(config, geometry(FLASH_NEXT)).block_tokens == block


@pytest.mark.parametrize("memory", [13_002_342_400, 13_014_401_023])
@pytest.mark.parametrize(
    ("block", "per_request", "blocks", "tokens"),
    [
        pytest.param(2048, 192, 775, 1_058_133, id="fork-doc-block2048"),
        pytest.param(4096, 124, 387, 818_142, id="fork-doc-block4096"),
    ],
)
def test_the_27b_with_dflash2(
    *, v100: Make, geometry: Make, memory: int, block: int, per_request: int, blocks: int, tokens: int
) -> None:
    config = v100(speculative="dflash2", limits={"block_size": block})
    pool = plan_pool(config, geometry(DENSE), size=GroupSize.least_padding)
    assert pool.bytes_per_block == 8 * block * 1024
    assert [demand.blocks for demand in pool.demands if demand.kind == "FullCache"] == [262_144 // (2 * block)] * 2
    capacity = pool.capacity(memory)
    assert (capacity.blocks_per_request, capacity.blocks, capacity.tokens) == (per_request, blocks, tokens)


def test_the_engine_itself_divides_the_27b_with_dflash2_by_its_smallest_type(v100: Make, geometry: Make) -> None:
    pool = plan_pool(v100(speculative="dflash2", limits={"block_size": 2048}), geometry(DENSE))
    kinds = [demand.kind for demand in pool.demands]
    assert {kind: kinds.count(kind) for kind in kinds} == {"StateCache": 10, "FullCache": 4, "SlidingCache": 1}


def test_the_line_that_the_engine_printed_for_smollm2(deployment: Make, geometry: Make) -> None:
    """`CPU KV cache size: 93,184 tokens, Maximum concurrency for 2,048 tokens per request: 45.50x`, at 1 GiB."""
    config = deployment(kv="fp8_e4m3", limits={"max_model_len": 2048})
    capacity = plan_capacity(config, geometry("smollm2"), GIB)
    assert (capacity.block_tokens, capacity.blocks, capacity.tokens) == (128, 728, 93_184)
    assert f"{capacity.concurrency:.2f}" == "45.50"


def test_without_a_memory_size_only_sizes_are_known(v100: Make, geometry: Make) -> None:
    capacity = plan_capacity(v100(speculative="mtp3"), geometry(FLASH_NEXT), None)
    assert (capacity.bytes_per_block, capacity.blocks_per_request) == (11_980_800, 185)
    assert (capacity.blocks, capacity.tokens, capacity.concurrency) == (None, None, None)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_three_ways_to_solve_agree(v100: Make, geometry: Make, layout: str) -> None:
    pool = sparse_pool(v100, geometry, layout, drafts=3)
    for blocks in (1, 2, 199, 200, 201, 899, 12_345):
        known = with_memory(pool, blocks * pool.bytes_per_block)
        assert for_tokens(pool, known.tokens) == known
        assert for_concurrency(pool, known.concurrency) == known
        assert for_tokens(pool, known.tokens + 1).blocks == blocks + 1
