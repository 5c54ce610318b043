"""From a view's scale shard to the layers: read, matched by number, set in every copy that a backend reads."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("vllm")

import torch
from vllm.model_executor.layers.attention.attention import set_default_quant_scales

from toolkit.plugin.scales import read_scales, set_scales
from toolkit.views.materialize import materialize
from toolkit.views.scales.scale_file import encode_scales
from toolkit.views.store import ViewStore

sys.path.insert(0, str(Path(__file__).parents[1] / "views"))
import view_samples as samples

SCALES = {"model.layers.0.self_attn.k_scale": 0.25, "model.layers.0.self_attn.v_scale": 2.0}


class Layer(torch.nn.Module):
    """An attention layer's scales, made by vLLM's own function."""

    def __init__(self, kv_cache_dtype="fp8_e4m3", shares=None):
        super().__init__()
        set_default_quant_scales(self, register_buffer=True)
        self.kv_cache_dtype, self.kv_sharing_target_layer_name = kv_cache_dtype, shares

    @property
    def copies(self):
        keys = (float(self._k_scale), self._k_scale_float, float(self._k_scale_cpu))
        return keys, (float(self._v_scale), self._v_scale_float, float(self._v_scale_cpu))


def test_a_materialized_views_scales_are_read_and_its_weights_are_not(tmp_path):
    base = samples.make_base(tmp_path / "base")
    pack = samples.write_pack(tmp_path / "pack", samples.pack_for(base, samples.scales_for()))
    store = ViewStore.at(str(tmp_path / "store"))
    view = materialize(samples.spec_for(base, pack), store).path
    assert read_scales(view) == samples.scales_for()
    assert read_scales(base) == {}


def test_a_quantized_checkpoints_own_scales_are_left_to_vllm(tmp_path):
    """They lie among its weights."""
    places = {"model.layers.0.self_attn.k_proj.weight": "a.safetensors", **dict.fromkeys(SCALES, "a.safetensors")}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    assert read_scales(tmp_path) == {}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (torch.tensor(0.5, dtype=torch.float16), "is torch.float16 of 1"),
        (torch.tensor([0.5, 0.5]), "is torch.float32 of 2"),
        (torch.tensor(float("nan")), "is nan"),
        (torch.tensor(0.0), "is 0.0"),
        (torch.tensor(-1.0), "is -1.0"),
    ],
)
def test_what_is_no_scale_is_refused_by_name(tmp_path, value, says):
    from safetensors.torch import save_file

    save_file({"model.layers.3.self_attn.k_scale": value}, tmp_path / "s.safetensors")
    places = {"model.layers.3.self_attn.k_scale": "s.safetensors"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    with pytest.raises(ValueError, match=r"s\.safetensors: model\.layers\.3\.self_attn\.k_scale") as caught:
        read_scales(tmp_path)
    assert says in str(caught.value)


def test_shape_1_is_read_as_well(tmp_path):
    from safetensors.torch import save_file

    save_file({"model.layers.3.self_attn.k_scale": torch.tensor([0.5])}, tmp_path / "s.safetensors")
    places = {"model.layers.3.self_attn.k_scale": "s.safetensors"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    assert read_scales(tmp_path) == {"model.layers.3.self_attn.k_scale": 0.5}


def test_every_copy_is_set_and_the_tensor_stays_the_same():
    layer = Layer()
    tensor = layer._k_scale
    assert set_scales({"model.layers.0.self_attn.attn": layer}, SCALES) == ()
    assert layer.copies == ((0.25,) * 3, (2.0,) * 3)
    assert layer._k_scale is tensor, "a captured graph holds its address"


@pytest.mark.parametrize(
    ("checkpoint", "engine"),
    [
        ("model", "model"),
        ("model.language_model", "language_model.model"),
        ("language_model.model", "model"),
        ("mtp", "mtp"),
    ],
)
def test_the_engines_prefix_may_be_another_one(checkpoint, engine):
    layer = Layer()
    scales = {f"{checkpoint}.layers.7.self_attn.{kind}_scale": value for kind, value in (("k", 0.5), ("v", 4.0))}
    assert set_scales({f"{engine}.layers.7.self_attn.attn": layer}, scales) == ()
    assert layer.copies == ((0.5,) * 3, (4.0,) * 3)


def test_target_and_draft_layers_of_one_number_are_told_apart():
    target, draft = Layer(), Layer()
    scales = {**SCALES, "mtp.layers.0.self_attn.k_scale": 8.0, "mtp.layers.0.self_attn.v_scale": 16.0}
    layers = {"language_model.model.layers.0.self_attn.attn": target, "mtp.layers.0.self_attn.attn": draft}
    assert set_scales(layers, scales) == ()
    assert target.copies == ((0.25,) * 3, (2.0,) * 3)
    assert draft.copies == ((8.0,) * 3, (16.0,) * 3)


def test_a_layer_that_reads_another_ones_cache_takes_its_scales():
    owner, reader = Layer(), Layer(shares="model.layers.0.self_attn.attn")
    layers = {"model.layers.0.self_attn.attn": owner, "model.layers.5.self_attn.attn": reader}
    assert set_scales(layers, SCALES) == ()
    assert reader.copies == owner.copies == ((0.25,) * 3, (2.0,) * 3)


@pytest.mark.parametrize("dtype", ["auto", "float16", "bfloat16"])
def test_a_cache_that_is_not_fp8_keeps_its_scales(dtype):
    layer = Layer(dtype)
    assert set_scales({"model.layers.0.self_attn.attn": layer}, SCALES) == tuple(sorted(SCALES))
    assert layer.copies == ((1.0,) * 3, (1.0,) * 3)


def test_scales_without_a_layer_are_named():
    scales = {**SCALES, "model.layers.9.self_attn.k_scale": 3.0}
    assert set_scales({"model.layers.0.self_attn.attn": Layer()}, scales) == ("model.layers.9.self_attn.k_scale",)


def test_two_layers_that_one_name_could_mean_are_refused():
    layers = {"model.layers.0.self_attn.attn": Layer(), "draft.layers.0.self_attn.attn": Layer()}
    with pytest.raises(ValueError, match=r"layer 0 could be meant for model\.layers\.0.* and for draft\.layers\.0"):
        set_scales(layers, SCALES)


def test_a_shard_is_written_and_read_bit_by_bit(tmp_path):
    """Values that a decimal text would round."""
    scales = {f"model.layers.{n}.self_attn.k_scale": float(torch.tensor(value)) for n, value in enumerate((0.1, 1 / 3))}
    (tmp_path / "s.safetensors").write_bytes(encode_scales(scales))
    (tmp_path / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": dict.fromkeys(scales, "s.safetensors")})
    )
    assert read_scales(tmp_path) == scales
