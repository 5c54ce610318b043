"""From counts to scales: ranks and halves together, and every reason for which there are none."""

from __future__ import annotations

import pytest
from measured import layer, measurement, tally

from toolkit.calibration.result import measured_scales
from toolkit.errors import CheckFailedError
from toolkit.views.scales.float32 import scale_of
from toolkit.views.scales.names import ScaleNames


def names(layers=2, drafts=0):
    def of(prefix, count):
        return frozenset(f"{prefix}.layers.{n}.self_attn.{kind}_scale" for n in range(count) for kind in "kv")

    return ScaleNames("model", of("model", layers), of("mtp", drafts))


def full(number, k, v, prefix="model"):
    return tally(layer(number, prefix), "k", *k), tally(layer(number, prefix), "v", *v)


def half(**changes):
    layers = {0: ((1.0, -8.0), (0.5,)), 1: ((2.0,), (3.0, 0.0))} | {int(n[1:]): v for n, v in changes.items()}
    return [measurement(*(part for number, (k, v) in layers.items() for part in full(number, k, v)))]


def faults(halves, wanted, *, drafts=False):
    with pytest.raises(CheckFailedError) as caught:
        measured_scales(halves, wanted, drafts=drafts)
    return [caught.value.what, *(f"{item.candidate}: {item.reason}" for item in caught.value.rejected)]


def test_a_scale_is_the_larger_halfs_maximum_over_448():
    found = {
        scale.name: scale for scale in measured_scales([half(), half(_0=((10.0,), (0.25,)))], names(), drafts=False)
    }
    assert sorted(found) == sorted(names().target)
    key = found["model.layers.0.self_attn.k_scale"]
    assert (key.scale, key.ratio, key.whole.count) == (scale_of(10.0), 1.25, 3)
    value = found["model.layers.0.self_attn.v_scale"]
    assert (value.scale, value.ratio) == (scale_of(0.5), 2.0)


def test_held_out_is_what_the_other_halfs_scale_clips():
    """Half of the second half's values lie beyond the first half's maximum."""
    found = measured_scales([half(_0=((1.0, 1.0), (1.0,))), half(_0=((1.0, 8.0), (1.0,)))], names(), drafts=False)
    by_name = {scale.name: scale for scale in found}
    assert by_name["model.layers.0.self_attn.k_scale"].held_out == 0.5
    assert by_name["model.layers.0.self_attn.v_scale"].held_out == 0.0


def test_ranks_are_one_distribution():
    """Tensor parallelism gives each rank other heads of every layer; pipelines give each other layers."""
    heads = [
        measurement(*full(0, (1.0,), (2.0,)), rank=0, world_size=3),
        measurement(*full(0, (4.0,), (1.0,)), rank=1, world_size=3),
        measurement(*full(1, (7.0,), (7.0,)), rank=2, world_size=3),
    ]
    found = {scale.name: scale for scale in measured_scales([heads, heads], names(), drafts=False)}
    assert found["model.layers.0.self_attn.k_scale"].whole.largest == 4.0
    assert found["model.layers.0.self_attn.v_scale"].whole.largest == 2.0
    assert found["model.layers.0.self_attn.k_scale"].whole.count == 4
    assert found["model.layers.1.self_attn.v_scale"].whole.largest == 7.0


def test_the_engines_prefix_may_be_another_one():
    inside = [measurement(*full(0, (1.0,), (1.0,), "language_model.model"))]
    found = measured_scales([inside, inside], names(1), drafts=False)
    assert [scale.name for scale in found] == ["model.layers.0.self_attn.k_scale", "model.layers.0.self_attn.v_scale"]


def test_draft_layers_are_measured_where_the_plan_drafts():
    one = [measurement(*full(0, (1.0,), (1.0,)), *full(0, (5.0,), (6.0,), "mtp"))]
    found = {scale.name: scale for scale in measured_scales([one, one], names(1, 1), drafts=True)}
    assert found["mtp.layers.0.self_attn.v_scale"].scale == scale_of(6.0)
    without = [measurement(*full(0, (1.0,), (1.0,)))]
    assert len(measured_scales([without, without], names(1, 1), drafts=False)) == 2
    assert "mtp.layers.0.self_attn.k_scale: no worker measured it" in faults([without] * 2, names(1, 1), drafts=True)[0]


@pytest.mark.parametrize("odd", [float("inf"), float("nan")])
def test_values_that_are_not_finite_are_refused_by_name(odd):
    said = faults([half(), half(_1=((2.0, odd), (3.0,)))], names())
    assert said == ["model.layers.1.self_attn.k_scale: 1 of 3 values are infinite or NaN"]


def test_a_layer_of_zeros_has_no_scale():
    said = faults([half(_0=((1.0,), (0.0,)))] * 2, names())
    assert said == [
        "model.layers.0.self_attn.v_scale: the scale is not greater than zero: 0; the largest magnitude is 0"
    ]


def test_a_layer_that_one_half_did_not_reach_is_named():
    partial = [measurement(*full(0, (1.0,), (1.0,)))]
    said = faults([half(), partial], names())
    assert said[0] == "model.layers.1.self_attn.k_scale: no worker measured it (and 1 more fault)"


def test_a_layer_that_the_checkpoint_does_not_have_is_named():
    said = faults([half(), half(_5=((1.0,), (1.0,)))], names())
    assert said[0] == ("layer 5: its K was measured, and the checkpoint has no such attention layer (and 1 more fault)")
