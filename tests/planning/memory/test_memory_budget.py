"""One rank's memory: published figures exactly where a formula gives them, within the margins elsewhere."""

from __future__ import annotations

import pytest
from memory_cases import DENSE, FLASH_NEXT, GIB, checkpoint, dflash2, geometry, purposes, tensor, v100

from toolkit.checkpoint.facts import CheckpointFacts
from toolkit.config.schema.limits import EmbeddingPlace
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.planning.budget import Place
from toolkit.planning.geometry import read_geometry
from toolkit.planning.geometry.shards import rank_of
from toolkit.planning.memory import plan_budget
from toolkit.planning.memory.embedding import table_bytes, table_rows
from toolkit.planning.memory.vision import is_vision
from toolkit.planning.memory.weights import packed_copies
from toolkit.planning.memory.workspaces import activations


def test_packed_nvfp4_copies_of_the_27b() -> None:
    codes, scales = packed_copies(geometry(DENSE), 4)
    assert f"{codes / GIB:.6f}" == "2.835693"
    assert f"{4 * codes / GIB:.2f}" == "11.34"
    assert f"{scales / GIB:.3f}" == "0.354"


def test_packed_copies_are_counted_where_the_kernel_is_on() -> None:
    config = dflash2()
    assert f"{purposes(plan_budget(config, geometry(DENSE)))['packed NVFP4 copies'].bytes / GIB:.2f}" == "3.19"
    config.switches.nvfp4_qpn2 = False
    assert "packed NVFP4 copies" not in purposes(plan_budget(config, geometry(DENSE)))
    assert "packed NVFP4 copies" not in purposes(plan_budget(v100(), geometry(DENSE)))


@pytest.mark.parametrize(("text", "counted"), [("0", False), ("1", True), ("yes", True)])
def test_packed_copies_follow_the_variable_that_turns_the_kernel_off(text: str, counted: bool) -> None:
    budget = plan_budget(dflash2(), geometry(DENSE), environment={"VLLM_SM70_NVFP4_QPN2": text})
    assert ("packed NVFP4 copies" in purposes(budget)) is counted


def test_the_n_gram_table_is_its_published_size_to_the_row() -> None:
    model = geometry(FLASH_NEXT)
    assert model.per_layer_embedding is not None
    assert table_rows(model.per_layer_embedding) == (128 * 2_500_012,)
    assert table_bytes(model) == 128 * 2_500_012 * 160
    assert f"{table_bytes(model) / GIB:.3f}" == "47.684"


def test_the_n_gram_table_stays_on_the_host() -> None:
    term = purposes(plan_budget(v100(), geometry(FLASH_NEXT)))["n-gram embedding"]
    assert (term.place, term.bytes * 4) == (Place.host, 128 * 2_500_012 * 160)
    assert "n-gram embedding (host)" in plan_budget(v100(), geometry(FLASH_NEXT)).by_purpose()


def test_attention_over_an_fp8_cache_takes_no_more_than_over_16_bits() -> None:
    """Our kernels read its elements as they are, where the public fork lays out a request's keys and values again."""
    model, sixteen, eight = geometry(DENSE), v100(), v100()
    sixteen.kv.dtype, eight.kv.dtype = "float16", "fp8_e4m3"
    assert purposes(plan_budget(eight, model)).keys() == purposes(plan_budget(sixteen, model)).keys()


def test_what_was_not_measured_is_an_estimate() -> None:
    config = v100()
    config.engine.compile = True
    budget = plan_budget(config, geometry(DENSE))
    estimates = {term.purpose for term in budget.terms if term.estimate}
    assert estimates == {"CUDA graphs", "image and video buffers", "NVFP4 scales in FP16"}
    assert {term.purpose for term in budget.certain().terms} == {term.purpose for term in budget.terms} - estimates


def test_activations_grow_with_the_tokens_of_a_step_and_are_shared_by_ranks() -> None:
    model = geometry(DENSE)
    one, four = (rank_of(model, ranks) for ranks in (1, 4))
    assert activations(model, one, 8192, 2) == 4 * activations(model, one, 2048, 2)
    assert activations(model, four, 8192, 2) < activations(model, one, 8192, 2)
    # residual twice, the widest layer's inputs and outputs, and a state of 48 heads for each 64 tokens
    expected = 2 * 64 * 5120 * 2 + 64 * (2 * 17408 + 5120) * 2 + 48 * 128 * 128 * 4
    assert activations(model, one, 64, 2) == expected


def test_what_the_plan_does_not_decide_is_named() -> None:
    assert plan_budget(dflash2(), geometry(DENSE)).unknown == ("KV cache and recurrent state",)
    config = dflash2()
    config.speculative.draft_repository = "someone/else"
    assert "draft model" in plan_budget(config, geometry(DENSE)).unknown


def test_tensors_are_divided_over_ranks_and_vectors_are_not() -> None:
    tensors = [
        tensor("model.layers.0.mlp.up_proj.weight", 1024, 512),
        tensor("model.norm.weight", 512),
        tensor("model.layers.1.ple.ple_embedding.ngram_embedding.shard_0.weight", 1024, 160),
    ]
    facts = CheckpointFacts("x", True, None, {}, {item.name: item for item in tensors}, weight_bytes=10**9)
    term = purposes(plan_budget(v100(), geometry(DENSE), facts))["weights"]
    assert term.bytes == 1024 * 512 * 2 // 4 + 512 * 2
    assert term.source == "the checkpoint's tensor headers, matrices divided over ranks"


def test_the_vision_encoder_is_a_term_of_its_own() -> None:
    tensors = [
        tensor("model.layers.0.mlp.up_proj.weight", 1024, 512),
        tensor("visual.blocks.0.attn.qkv.weight", 256, 64),
        tensor("model.vision_tower.norm.weight", 64),
        tensor("model.layers.0.supervisual.weight", 8, 4),
    ]
    facts = CheckpointFacts("x", True, None, {}, {item.name: item for item in tensors})
    found = purposes(plan_budget(v100(), geometry(DENSE), facts))
    assert found["vision encoder"].bytes == 256 * 64 * 2 // 4 + 64 * 2
    assert found["weights"].bytes == 1024 * 512 * 2 // 4 + 8 * 4 * 2 // 4


@pytest.mark.parametrize(
    ("name", "vision"),
    [
        ("visual.blocks.0.attn.qkv.weight", True),
        ("model.visual.merger.mlp.0.weight", True),
        ("vision_tower.encoder.layers.0.weight", True),
        ("vision_model.embeddings.weight", True),
        ("model.vision_encoder.norm.weight", True),
        ("multi_modal_projector.linear_1.weight", True),
        ("model.layers.0.self_attn.q_proj.weight", False),
        ("model.supervisual.weight", False),
        ("model.layers.0.revision.weight", False),
        ("visual", False),
    ],
)
def test_tensors_of_a_vision_encoder_are_told_by_name(name: str, vision: bool) -> None:
    assert is_vision(name) == vision


def test_a_vision_encoder_known_by_its_shapes() -> None:
    shapes = {"depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "num_heads": 16, "out_hidden_size": 5120}
    model = read_geometry({**checkpoint(DENSE)["declared"], "vision_config": shapes})
    budget = plan_budget(v100(), model)
    term = purposes(budget)["vision encoder"]
    assert 0.4e9 < term.bytes * 4 / 2 < 0.5e9, "the family's encoder has about 0.46 billion weights"
    declared = CheckpointFacts("x", present=False, root=None, config={}, weight_bytes=10**11)
    assert "vision encoder" not in purposes(plan_budget(v100(), model, declared)), "the declared size has it already"


def test_a_draft_is_counted_from_its_own_headers() -> None:
    weights = {"a": tensor("layers.0.mlp.up_proj.weight", 1024, 512), "b": tensor("norm.weight", 512)}
    draft = CheckpointFacts("draft", True, None, {}, weights)
    term = purposes(plan_budget(dflash2(), geometry(DENSE), draft=draft))["draft model"]
    assert (term.bytes, term.source) == (
        1024 * 512 * 2 // 4 + 512 * 2,
        "its tensor headers, matrices divided over ranks",
    )
    config = dflash2()
    config.speculative.draft_path = "/some/other/draft"
    assert "draft model" in plan_budget(config, geometry(DENSE)).unknown, "a folder is not the published file"


@pytest.mark.parametrize(
    ("where", "place", "locked"),
    [("gpu", Place.device, False), ("pinned", Place.host, True), ("disk", Place.disk, False)],
)
def test_the_table_is_counted_where_it_lies(where: str, place: Place, locked: bool) -> None:
    budget = plan_budget(v100(ngram_embedding=EmbeddingPlace(where)), geometry(FLASH_NEXT))
    term = purposes(budget)["n-gram embedding"]
    assert (term.place, term.locked) == (place, locked)
    assert budget.total(place) >= term.bytes


def test_every_number_has_a_source_and_a_margin_that_is_a_share() -> None:
    for config, model in (
        (dflash2(), DENSE),
        (v100(kv_cache_memory_bytes=GIB), FLASH_NEXT),
        (DeploymentConfig(), "smollm2"),
    ):
        budget = plan_budget(config, geometry(model))
        assert all(len(term.source) > 10 and 0 <= term.margin <= 1 for term in budget.terms)
        assert [set(term) for term in budget.to_json()["terms"]] == [
            {"purpose", "bytes", "most", "source", "margin", "place", "locked", "beside_share", "estimate"}
        ] * len(budget.terms)


def test_the_cpu_engine_counts_its_processes_and_no_gpu() -> None:
    config = DeploymentConfig()
    config.limits.kv_cache_memory_bytes = 2**28
    budget = plan_budget(config, geometry("smollm2"))
    expected = ["weights", "activations", "logits", "engine processes", "KV cache and recurrent state"]
    assert list(purposes(budget)) == expected
    assert budget.unknown == ()
