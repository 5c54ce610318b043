"""One rank's shapes, against the shapes that were published for the 27B."""

from __future__ import annotations

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from toolkit.errors import ConfigurationError
from toolkit.planning.geometry import ModelGeometry, read_geometry
from toolkit.planning.geometry.scales import kv_scales
from toolkit.planning.geometry.shards import projections, rank_of

CONF = Path(__file__).parents[3] / "conf" / "checkpoint"


def geometry(name: str) -> ModelGeometry:
    return read_geometry(OmegaConf.to_container(OmegaConf.load(CONF / f"{name}.yaml"))["declared"])


@pytest.mark.parametrize(
    ("name", "tp", "query", "kv"),
    [
        ("qwen38_27b_nvfp4", 4, 6, 1),
        ("qwen38_27b_nvfp4", 2, 12, 2),
        ("qwen38_27b_nvfp4", 8, 3, 1),
        ("qwen38_flash_next_nvfp4", 4, 6, 1),
        ("qwen38_flash_next_nvfp4", 2, 12, 1),
    ],
)
def test_heads_of_one_rank(name: str, tp: int, query: int, kv: int) -> None:
    rank = rank_of(geometry(name), tp)
    assert (rank.query_heads, rank.kv_heads) == (query, kv)


@pytest.mark.parametrize(
    ("tp", "name", "rows", "columns", "padded"),
    [
        (4, "self_attn.qkv_proj", 3584, 5120, 3584),
        (4, "self_attn.o_proj", 5120, 1536, 5120),
        (4, "linear_attn.in_proj", 4120, 5120, 4128),
        (4, "linear_attn.out_proj", 5120, 1536, 5120),
        (4, "mlp.gate_up_proj", 8704, 5120, 8704),
        (4, "mlp.down_proj", 5120, 4352, 5120),
        (4, "lm_head", 62080, 5120, 62080),
        (2, "self_attn.qkv_proj", 7168, 5120, 7168),
        (2, "linear_attn.in_proj", 8240, 5120, 8256),
        (2, "linear_attn.out_proj", 5120, 3072, 5120),
        (2, "mlp.gate_up_proj", 17408, 5120, 17408),
        (2, "mlp.down_proj", 5120, 8704, 5120),
    ],
)
def test_projections_of_the_27b(tp: int, name: str, rows: int, columns: int, padded: int) -> None:
    found = {projection.name: projection for projection in projections(geometry("qwen38_27b_nvfp4"), tp)}
    projection = found[name]
    assert (projection.rows, projection.columns, projection.padded_rows) == (rows, columns, padded)


def test_how_often_a_token_passes_each_projection_of_the_27b() -> None:
    found = {projection.name: projection.layers for projection in projections(geometry("qwen38_27b_nvfp4"), 4)}
    assert found == {
        "self_attn.qkv_proj": 16,
        "self_attn.o_proj": 16,
        "linear_attn.in_proj": 48,
        "linear_attn.out_proj": 48,
        "mlp.gate_up_proj": 64,
        "mlp.down_proj": 64,
        "lm_head": 1,
    }


def test_experts_of_one_rank() -> None:
    found = {projection.name: projection for projection in projections(geometry("qwen38_flash_next_nvfp4"), 4)}
    experts = found["mlp.experts.gate_up_proj"]
    assert (experts.rows, experts.columns, experts.layers) == (320, 2560, 48 * 512)
    assert found["mlp.gate"].rows == 512
    assert "mlp.gate_up_proj" not in found


@pytest.mark.parametrize(
    ("tp", "what"),
    [
        (5, "The model cannot be divided over 5 GPUs: attention heads (24) do not divide evenly."),
        (3, "The model cannot be divided over 3 GPUs: KV heads (4) do not divide evenly."),
        (6, "The model cannot be divided over 6 GPUs: KV heads (4) do not divide evenly."),
        (12, "The model cannot be divided over 12 GPUs: recurrent key heads (16) do not divide evenly."),
    ],
)
def test_heads_that_do_not_divide(tp: int, what: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        rank_of(geometry("qwen38_27b_nvfp4"), tp)
    assert caught.value.what == what


def test_kv_scales_by_tensor_name() -> None:
    names = [
        "model.language_model.layers.3.self_attn.k_scale",
        "model.language_model.layers.3.self_attn.v_scale",
        "model.layers.7.self_attn.k_proj.k_scale",
        "model.layers.8.self_attn.attn.v_scale",
        "mtp.layers.0.self_attn.k_scale",
        "model.layers.3.self_attn.k_proj.weight_scale",
        "model.layers.3.mlp.down_proj.input_scale",
        "model.layers.4.self_attn.q_scale",
    ]
    assert kv_scales(names) == {
        "model.language_model.layers.3": frozenset("kv"),
        "model.layers.7": frozenset("k"),
        "model.layers.8": frozenset("v"),
        "mtp.layers.0": frozenset("k"),
    }
