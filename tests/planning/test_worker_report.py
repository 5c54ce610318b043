"""A worker's report survives being written and read, and a foreign one is refused."""

import json

import pytest

from toolkit.planning.worker_report import AttentionLayer, LayerKey, WorkerReport, layer_key
from toolkit.serving.report_file import report_from

LAYER = AttentionLayer("model.layers.0.self_attn.attn", "Impl", "fp8_e4m3", (0.1,), (2.0,), 0.1, 2.0)
REPORT = WorkerReport(
    rank=1,
    world_size=2,
    pid=7,
    engine="v100",
    versions={"torch": "2.10.0"},
    paths={"torch": "/venv/torch"},
    switches={"decode_xqa": True},
    layers=(LAYER,),
    unused_scales=("model.layers.9.self_attn.k_scale",),
)


def as_read():
    return json.loads(json.dumps(REPORT.to_data()))


def test_it_is_read_back_whole():
    assert report_from(json.loads(json.dumps(REPORT.to_data()))) == REPORT
    assert REPORT.file_name == "rank1-pid7.json"


def test_a_report_of_an_older_plugin_lacks_what_was_added():
    data = as_read()
    for added in ("switches", "layers", "unused_scales"):
        del data[added]
    assert report_from(data).layers == ()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"schema": 9}, "schema 9, and 1 is read"),
        ({"colour": 1}, "report.colour: there is no such fact"),
        ({"layers": [{"name": "x"}]}, "it is absent"),
        ({"layers": [{**REPORT.to_data()["layers"][0], "k_scale": 1.0}]}, "k_scale: it must be a list"),
    ],
)
def test_what_does_not_fit_is_said(change, says):
    with pytest.raises(ValueError, match=says):
        report_from({**as_read(), **change})


@pytest.mark.parametrize("data", [None, [], "text", {}])
def test_what_is_no_report_is_refused(data):
    with pytest.raises(ValueError, match="schema None"):
        report_from(data)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("model.layers.0.self_attn.k_scale", LayerKey(False, 0)),
        ("language_model.model.layers.47.self_attn.attn", LayerKey(False, 47)),
        ("mtp.layers.0.self_attn.attn", LayerKey(True, 0)),
        ("model.mtp.layers.12.self_attn.attn", LayerKey(True, 12)),
        ("model.mtpx.layers.1.attn", LayerKey(False, 1)),
        ("layers.3.attn", LayerKey(False, 3)),
        ("model.mylayers.3.attn", None),
        ("lm_head.weight", None),
        ("model.layers.x.attn", None),
    ],
)
def test_the_layer_that_a_name_means(name, key):
    assert layer_key(name) == key
