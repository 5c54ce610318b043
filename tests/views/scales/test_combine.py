"""Which scales a checkpoint needs, and scales that nobody measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from view_samples import pack_for, projections, scales_for

from toolkit.errors import CheckFailedError, ConfigurationError
from toolkit.views.scales.combine import draft_scales, unit_pack
from toolkit.views.scales.coverage import check_base, cover, united
from toolkit.views.scales.names import scale_names

QWEN = [
    *projections("model.language_model", range(3, 48, 4)),
    *projections("mtp", [0]),
    *projections("model.visual.encoder", range(60)),
    "model.language_model.layers.0.linear_attn.out_proj.weight",
]


def first_line(caught: pytest.ExceptionInfo[Exception]) -> str:
    return str(caught.value).splitlines()[0]


def test_the_published_model_needs_24_and_2() -> None:
    names = scale_names(QWEN)
    assert names.prefix == "model.language_model"
    assert len(names.target) == 24
    assert "model.language_model.layers.47.self_attn.v_scale" in names.target
    assert names.draft == {"mtp.layers.0.self_attn.k_scale", "mtp.layers.0.self_attn.v_scale"}


def test_quantised_and_fused_projections_count() -> None:
    packed = scale_names(["model.layers.0.self_attn.k_proj.weight_packed", "model.layers.1.self_attn.qkv_proj.qweight"])
    assert {name.split(".")[2] for name in packed.target} == {"0", "1"}


def test_no_attention_at_all() -> None:
    with pytest.raises(CheckFailedError) as caught:
        scale_names(["model.layers.0.mixer.weight"])
    assert first_line(caught) == "the checkpoint has no attention layer that could take a KV scale"


def test_strict_lists_what_is_missing() -> None:
    names, scales = scale_names(projections("model", range(2))), scales_for()
    missing = [f"model.layers.1.self_attn.{kind}_scale" for kind in "kv"]
    rest = {name: value for name, value in scales.items() if name not in missing}
    with pytest.raises(CheckFailedError) as caught:
        cover(names, rest, strict=True, needs_draft=False)
    assert first_line(caught) == f"Strict KV scales: loaded 2 of 4 required. Missing: {', '.join(missing)}"
    assert cover(names, rest, strict=False, needs_draft=False).fallen == tuple(missing)


@pytest.mark.parametrize("strict", [True, False])
def test_draft_scales_never_fall_back(strict: bool) -> None:
    names = scale_names(QWEN)
    with pytest.raises(CheckFailedError) as caught:
        cover(names, dict.fromkeys(names.target, 1.0), strict=strict, needs_draft=True)
    assert first_line(caught) == (
        "Draft KV scales never fall back: loaded 0 of 2 required. "
        "Missing: mtp.layers.0.self_attn.k_scale, mtp.layers.0.self_attn.v_scale"
    )


def test_half_a_draft_is_refused_even_where_none_is_needed() -> None:
    names = scale_names(QWEN)
    half = dict.fromkeys([*names.target, "mtp.layers.0.self_attn.k_scale"], 1.0)
    with pytest.raises(CheckFailedError, match="loaded 1 of 2 required"):
        cover(names, half, strict=True, needs_draft=False)


def test_a_scale_for_no_layer_is_refused() -> None:
    names = scale_names(projections("model", range(2)))
    with pytest.raises(CheckFailedError) as caught:
        cover(names, {**scales_for(), "model.layers.9.self_attn.k_scale": 1.0}, strict=False, needs_draft=False)
    assert first_line(caught) == "model.layers.9.self_attn.k_scale: the checkpoint has no such attention layer"


def test_two_packs_do_not_set_one_name(base: Path) -> None:
    one, two = pack_for(base, scales_for(), artifact="one"), pack_for(base, scales_for(1), artifact="two")
    with pytest.raises(CheckFailedError) as caught:
        united([one, two])
    assert first_line(caught) == "model.layers.0.self_attn.k_scale: one and two both set it (and 1 more fault)"
    assert caught.value.fix == "name each overlay once; calibrate once on the prompts of both where both shall count"


def test_a_wrong_revision_and_a_collision(base: Path) -> None:
    pack = pack_for(base, scales_for())
    with pytest.raises(CheckFailedError) as caught:
        check_base(pack, "0" * 64, {})
    assert first_line(caught) == "Base checkpoint revision does not match the scale pack"
    with pytest.raises(CheckFailedError) as caught:
        check_base(pack, pack.base_index_sha256, {"model.layers.0.self_attn.k_scale": "a.safetensors"})
    assert first_line(caught) == "model.layers.0.self_attn.k_scale: the base already has it, in a.safetensors"


def test_the_negative_control_is_all_ones() -> None:
    pack = unit_pack(scale_names(QWEN), "0" * 64)
    assert set(pack.scales.values()) == {1.0}
    assert len(pack.scales) == 26


def test_stand_ins_for_the_draft() -> None:
    names = scale_names(QWEN)
    target = {name: 2.0 if name.endswith("k_scale") else 3.0 for name in names.target}
    k, v = sorted(names.draft)
    assert draft_scales("prototype:unit", names, target) == {k: 1.0, v: 1.0}
    assert draft_scales("prototype:from-layer-47", names, target) == {k: 2.0, v: 3.0}
    with pytest.raises(CheckFailedError) as caught:
        draft_scales("prototype:from-layer-4", names, target)
    assert first_line(caught) == (
        "the pack has no k_scale of layer 4, which prototype:from-layer-4 takes the draft's from"
    )
    with pytest.raises(ConfigurationError) as refused:
        draft_scales("guess", names, target)
    assert first_line(refused) == "views.draft_scales='guess' is unknown"
