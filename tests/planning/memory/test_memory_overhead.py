"""What no tensor of the model takes: context, libraries, NCCL, and what images need."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_cases import DENSE, FLASH_NEXT, GIB, absent, checkpoint, dflash2, geometry, purposes, tensor, v100

from toolkit.checkpoint.facts import CheckpointFacts
from toolkit.planning.budget import Budget, Place
from toolkit.planning.geometry import read_geometry
from toolkit.planning.memory import plan_budget
from toolkit.planning.memory.communicators import communicators
from toolkit.planning.memory.vision import image_buffers

MIB = 2**20
TEXT_ALONE = (
    ["--language-model-only"],
    ["--limit-mm-per-prompt", '{"image":0,"video":0}'],
    ["--limit-mm-per-prompt.image=0", "--limit-mm-per-prompt.video", "0"],
    ['--limit-mm-per-prompt={"image":{"count":0},"video":0}'],
)
IMAGES = ([], ["--limit-mm-per-prompt", '{"image":0}'], ["--limit-mm-per-prompt.video=0"])


def test_a_context_lies_between_what_was_published_for_this_chip_and_for_newer_ones() -> None:
    term = purposes(plan_budget(v100(), geometry(DENSE)))["CUDA context"]
    for published in (320.2 - 0.9, 400e6 / MIB, 426):
        assert round(term.bytes / MIB) <= published <= term.most / MIB
    assert term.beside_share


def test_a_single_v100_needs_little_else() -> None:
    """vLLM's `non-torch memory` on one GPU, context apart: 0.04 to 0.16 GiB, and workspaces that torch holds."""
    config = v100(tensor_parallel=1)
    found = purposes(plan_budget(config, geometry(DENSE)))
    assert "NCCL buffers" not in found
    kernels = found["cuBLAS and kernels"]
    assert kernels.most / GIB > 0.16 + 2 * 8_519_680 / GIB
    assert not kernels.beside_share


def test_a_pair_of_16_gb_v100s_took_what_the_terms_say() -> None:
    """vllm issue 11251: 0.39 GiB beside torch on each of two 16 GB V100s, which is NCCL's and the kernels'."""
    found = purposes(plan_budget(v100(tensor_parallel=2), geometry(DENSE)))
    both = Budget((found["NCCL buffers"], found["cuBLAS and kernels"]))
    assert both.total() / GIB < 0.39 < both.most() / GIB


@pytest.mark.parametrize(
    ("model", "ranks", "dcp", "count"),
    [(DENSE, 1, 1, 0), (DENSE, 4, 1, 1), (FLASH_NEXT, 4, 1, 2), (FLASH_NEXT, 4, 2, 3), (FLASH_NEXT, 1, 1, 0)],
)
def test_communicators(model: str, ranks: int, dcp: int, count: int) -> None:
    """Tensor parallelism has one; a mixture's experts and DCP have their own."""
    config = v100(tensor_parallel=ranks)
    config.dcp.size = dcp
    assert communicators(config, geometry(model)) == count


def test_channels_follow_the_interconnect() -> None:
    config, sizes = v100(), {}
    for link in ("nvlink", "pcie", None):
        config.hardware.interconnect = link
        sizes[link] = purposes(plan_budget(config, geometry(DENSE)))["NCCL buffers"].bytes
    assert sizes["nvlink"] - sizes["pcie"] == 10 * 12 * MIB
    assert sizes[None] == sizes["nvlink"], "the most, where it is not known"


@pytest.mark.parametrize("arguments", TEXT_ALONE)
def test_an_engine_that_takes_text_alone_loads_no_encoder(arguments: list[str]) -> None:
    config = dflash2()
    both = {"vision encoder", "image and video buffers"}
    assert both <= set(purposes(plan_budget(config, geometry(DENSE))))
    config.engine.extra_arguments = arguments
    assert not both & set(purposes(plan_budget(config, geometry(DENSE))))
    headers = {"visual.blocks.0.attn.qkv.weight": tensor("visual.blocks.0.attn.qkv.weight", 64, 64)}
    facts = CheckpointFacts("x", True, None, {}, headers)
    assert not both & set(purposes(plan_budget(config, geometry(DENSE), facts)))
    weights = purposes(plan_budget(config, geometry(FLASH_NEXT), absent(FLASH_NEXT)))["weights"].bytes
    config.engine.extra_arguments = []
    with_encoder = purposes(plan_budget(config, geometry(FLASH_NEXT), absent(FLASH_NEXT)))["weights"].bytes
    assert 0.19 < (with_encoder - weights) / GIB < 0.22


@pytest.mark.parametrize("arguments", IMAGES)
def test_an_engine_that_takes_images_or_videos_loads_it(arguments: list[str]) -> None:
    config = dflash2()
    config.engine.extra_arguments = arguments
    assert {"vision encoder", "image and video buffers"} <= set(purposes(plan_budget(config, geometry(DENSE))))


def test_image_buffers_are_the_largest_image_or_all_tokens_of_a_step() -> None:
    vision = geometry(DENSE).vision
    assert vision is not None
    cache, encoding = image_buffers(vision, 4, 2048, 2)
    assert cache == 16_384 * 5120 * 2
    assert encoding == 4 * 16_384 * (1536 + 2 * 1152 + 2 * 4304 // 4) * 2
    assert image_buffers(vision, 4, 32_768, 2) == (2 * cache, 2 * encoding)
    term = purposes(plan_budget(v100(max_num_batched_tokens=8192), geometry(DENSE)))
    more = max(0, encoding - term["activations"].bytes)
    assert term["image and video buffers"].bytes == cache + more


def test_a_next_token_head_is_loaded_for_mtp_drafts_alone() -> None:
    weights = {name: tensor(name, 64, 64) for name in ("model.layers.0.mlp.up_proj.weight", "mtp.fc.weight")}
    facts, config = CheckpointFacts("x", True, None, {}, weights), v100()
    config.speculative.method = "mtp"
    with_head = purposes(plan_budget(config, geometry(DENSE), facts))["weights"].bytes
    shapes = purposes(plan_budget(config, geometry(DENSE)))["weights"].bytes
    config.speculative.method = "none"
    assert purposes(plan_budget(config, geometry(DENSE), facts))["weights"].bytes == with_head // 2
    head = shapes - purposes(plan_budget(config, geometry(DENSE)))["weights"].bytes
    layer = 3584 * 5120 + 5120 * 1536 + 3 * 4352 * 5120
    assert head == (layer + 2 * 5120**2 // 4) * 2


def ignoring(*patterns: str) -> dict[str, Any]:
    shapes: dict[str, Any] = checkpoint(DENSE)["declared"]
    return {**shapes, "quantization_config": {**shapes["quantization_config"], "ignore": list(patterns)}}


@pytest.mark.parametrize(
    ("patterns", "wide"),
    [
        (("lm_head",), 0),
        (("model.layers.0.mlp",), 2 * 4352 * 5120 + 5120 * 4352),
        (("re:.*mlp.*down_proj",), 64 * 5120 * 4352),
        (("*.linear_attn.*", "lm_head"), 48 * (4120 * 5120 + 5120 * 1536)),
        (("model.language_model.layers.3.self_attn",), 3584 * 5120 + 5120 * 1536),
        (("model.layers.3.linear_attn",), 0),
    ],
    ids=["head", "one layer", "kind", "recurrent", "one attention", "not there"],
)
def test_what_a_checkpoint_leaves_out_is_counted_in_16_bits(patterns: tuple[str, ...], wide: int) -> None:
    """At 4.5 bits otherwise; the margin for recurrent layers goes, as the checkpoint says which ones are wide."""
    config = v100()
    said = purposes(plan_budget(config, read_geometry(ignoring(*patterns))))["weights"]
    silent = purposes(plan_budget(config, geometry(DENSE)))["weights"]
    assert said.bytes - silent.bytes == pytest.approx(wide * (16 - 4.5) / 8, abs=64)
    assert (said.margin, silent.margin > 0.4) == (0.02, True)


@settings(max_examples=60, deadline=None)
@given(
    ranks=st.sampled_from([1, 2, 4]),
    tokens=st.integers(1, 16_384),
    sequences=st.integers(1, 256),
    drafts=st.sampled_from([0, 3]),
    compiled=st.booleans(),
    told=st.none() | st.integers(0, 20 * GIB),
    model=st.sampled_from([DENSE, FLASH_NEXT]),
    arguments=st.sampled_from([*TEXT_ALONE, *IMAGES]),
)
def test_the_total_is_no_less_than_any_term_and_each_side_of_the_share_adds_up(
    *,
    ranks: int,
    tokens: int,
    sequences: int,
    drafts: int,
    compiled: bool,
    told: int | None,
    model: str,
    arguments: list[str],
) -> None:
    limits = {"tensor_parallel": ranks, "max_num_batched_tokens": tokens, "max_num_seqs": sequences}
    config = v100(**limits, kv_cache_memory_bytes=told)
    config.speculative.method, config.speculative.tokens = "mtp" if drafts else "none", drafts
    config.engine.compile, config.engine.extra_arguments = compiled, list(arguments)
    budget = plan_budget(config, geometry(model))
    device = [term for term in budget.terms if term.place is Place.device]
    assert all(0 < term.bytes <= budget.total() and term.bytes <= term.most <= budget.most() for term in device)
    assert len({term.purpose for term in budget.terms}) == len(budget.terms)
    inside, beside = budget.in_share(), budget.beside_share()
    assert (inside.total() + beside.total(), inside.most() + beside.most()) == (budget.total(), budget.most())
    assert budget.unknown == (() if told else ("KV cache and recurrent state",))
