"""Scales as the workers use them against those of the served view; each way to differ has its sentence."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from toolkit.errors import CheckFailedError
from toolkit.planning.worker_report import AttentionLayer, WorkerReport
from toolkit.serving import worker_reports
from toolkit.serving.worker_reports import (
    ExpectedScales,
    await_use,
    check_scales,
    early_findings,
    missing_ranks,
    read_reports,
)

SCALES = {
    f"model.layers.{layer}.self_attn.{kind}_scale": 0.5 + layer + (kind == "v") / 4
    for layer in range(2)
    for kind in "kv"
}
WHERE = Path("/run/workers")


def layer(number: int, k: float, v: float, dtype: str = "fp8_e4m3", name: str = "model") -> AttentionLayer:
    return AttentionLayer(f"{name}.layers.{number}.self_attn.attn", "Impl", dtype, (k,), (v,), k, v)


LAYERS = (layer(0, 0.5, 0.75), layer(1, 1.5, 1.75))


def report(layers=LAYERS, rank: int = 0, world_size: int = 1) -> WorkerReport:
    return WorkerReport(rank, world_size, 1 + rank, "cpu", {}, {}, layers=layers)


def faults(reports, expected) -> list[str]:
    with pytest.raises(CheckFailedError) as caught:
        check_scales(reports, expected, WHERE)
    assert caught.value.where == str(WHERE)
    return [caught.value.what, *(f"{item.candidate}: {item.reason}" for item in caught.value.rejected)]


@pytest.mark.parametrize("prefix", ["model", "language_model.model"])
def test_equal_scales_pass(prefix):
    layers = (layer(0, 0.5, 0.75, name=prefix), layer(1, 1.5, 1.75, name=prefix))
    check_scales([report(layers)], ExpectedScales(SCALES), WHERE)


def test_layers_may_be_spread_over_ranks():
    check_scales([report(LAYERS[:1], 0, 2), report(LAYERS[1:], 1, 2)], ExpectedScales(SCALES), WHERE)


def test_without_scales_in_the_view_nothing_is_compared():
    check_scales([], ExpectedScales(), WHERE)
    check_scales([report((layer(0, 0.1, 0.1),))], ExpectedScales(), WHERE)


def test_a_difference_names_layer_and_both_values():
    wrong = (layer(0, 0.5, 0.75), layer(1, 1.0, 1.75))
    expected = "model.layers.1.self_attn.attn: uses 1 as its k_scale, the view's is 1.5"
    assert faults([report(wrong)], ExpectedScales(SCALES)) == [expected]


def test_the_last_bit_counts():
    wrong = (layer(0, 0.5, 0.75), layer(1, 1.5, 1.7500001192092896))
    said = faults([report(wrong)], ExpectedScales(SCALES))
    assert said == ["model.layers.1.self_attn.attn: uses 1.75000012 as its v_scale, the view's is 1.75"]


@pytest.mark.parametrize("change", [{"k_scale_host": 1.0}, {"k_scale": (1.0,)}, {"k_scale": (1.5, 1.0)}])
def test_either_copy_and_every_head_counts(change):
    wrong = (LAYERS[0], replace(LAYERS[1], **change))
    assert "as its k_scale, the view's is 1.5" in faults([report(wrong)], ExpectedScales(SCALES))[0]


def test_the_difference_of_one_rank_is_found():
    reports = [report(LAYERS, 0, 2), report((LAYERS[0], layer(1, 1.5, 1.0)), 1, 2)]
    assert len(faults(reports, ExpectedScales(SCALES))) == 1


def test_a_missing_scale_is_refused_under_strict_and_must_else_be_1():
    more = (*LAYERS, layer(2, 1.0, 1.0))
    said = faults([report(more)], ExpectedScales(SCALES))
    assert said[0] == (
        "model.layers.2.self_attn.attn: its cache is fp8_e4m3, and the view has no k_scale for it (and 1 more fault)"
    )
    check_scales([report(more)], ExpectedScales(SCALES, strict=False), WHERE)
    odd = (*LAYERS, layer(2, 1.0, 0.5))
    assert faults([report(odd)], ExpectedScales(SCALES, strict=False)) == [
        "model.layers.2.self_attn.attn: uses 0.5 as its v_scale, the view has none, so it must be 1"
    ]


def test_a_scale_on_a_layer_without_an_fp8_cache_is_refused():
    wide = (LAYERS[0], layer(1, 1.0, 1.0, "auto"))
    said = faults([report(wide)], ExpectedScales(SCALES))
    assert said[0].startswith("model.layers.1.self_attn.attn: the view has a k_scale for it, and its cache is auto")


def test_a_layer_without_fp8_and_without_scales_is_none_of_our_business():
    check_scales([report((*LAYERS, layer(2, 1.0, 1.0, "auto")))], ExpectedScales(SCALES), WHERE)


def test_a_scale_that_no_layer_takes_is_refused():
    said = faults([report(LAYERS[:1])], ExpectedScales(SCALES))
    assert said[0] == ("model.layers.1.self_attn.k_scale: no attention layer of the engine takes it (and 1 more fault)")


def test_a_drafts_scales_matter_only_where_the_plan_drafts():
    scales = {**SCALES, "mtp.layers.0.self_attn.k_scale": 9.0, "mtp.layers.0.self_attn.v_scale": 9.0}
    check_scales([report()], ExpectedScales(scales), WHERE)
    drafting = (*LAYERS, layer(0, 9.0, 8.0, name="mtp"))
    assert faults([report(drafting)], ExpectedScales(scales)) == [
        "mtp.layers.0.self_attn.attn: uses 8 as its v_scale, the view's is 9"
    ]


def test_a_shared_cache_has_its_owners_scales():
    reader = replace(layer(5, 0.5, 0.75), shares="model.layers.0.self_attn.attn")
    check_scales([report((*LAYERS, reader))], ExpectedScales(SCALES), WHERE)


def test_scales_that_nobody_reports_are_refused():
    said = faults([], ExpectedScales(SCALES))
    assert said[0].startswith("model.layers.0.self_attn.k_scale: no attention layer of the engine takes it")
    assert len(said) == len(SCALES)


@pytest.mark.parametrize(
    ("ranks", "world_size", "planned", "missing"),
    [
        ((), 1, None, [0]),
        ((), 1, 2, [0, 1]),
        ((0,), 1, 2, [1]),
        ((1,), 3, None, [0, 2]),
        ((0, 1), 3, 2, [2]),
        ((0, 1), 2, 1, []),
    ],
)
def test_ranks_are_missing_that_the_plan_or_a_worker_knows_of(ranks, world_size, planned, missing):
    assert missing_ranks([report(LAYERS, rank, world_size) for rank in ranks], planned) == missing


def test_reports_are_read_in_the_order_of_ranks(tmp_path):
    for rank in (10, 2):
        written = report(rank=rank, world_size=11)
        (tmp_path / written.file_name).write_text(json.dumps(written.to_data()))
    (tmp_path / ".rank3.json.tmp").write_text("half")
    assert [found.rank for found in read_reports(tmp_path)] == [2, 10]
    assert read_reports(tmp_path / "absent") == ()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 2}'])
def test_a_damaged_report_is_a_failed_check(tmp_path, text):
    (tmp_path / "rank0-pid1.json").write_text(text)
    with pytest.raises(CheckFailedError) as caught:
        read_reports(tmp_path)
    assert (caught.value.what, caught.value.where) == (
        "a worker's report cannot be read",
        str(tmp_path / "rank0-pid1.json"),
    )


def write(folder, written: WorkerReport) -> None:
    staged = folder / f".{written.file_name}"
    staged.write_text(json.dumps(written.to_data()))
    staged.replace(folder / written.file_name)


def test_reports_of_real_use_are_waited_for(tmp_path):
    warm, used = replace(report(), requests=0), replace(report(), requests=1)
    write(tmp_path, warm)
    threading.Timer(0.2, lambda: write(tmp_path, used)).start()
    await_use(tmp_path, None, threading.Event())
    assert read_reports(tmp_path) == (used,)


def test_the_wait_ends_by_itself_and_at_a_signal(tmp_path, monkeypatch):
    write(tmp_path, report())
    monkeypatch.setattr(worker_reports, "USE_S", 0.1)
    await_use(tmp_path, None, threading.Event())
    monkeypatch.setattr(worker_reports, "USE_S", 1e9)
    cancelled = threading.Event()
    threading.Timer(0.1, cancelled.set).start()
    await_use(tmp_path, None, cancelled)


def test_reports_of_the_warm_up_alone_are_a_warning():
    early = [report(rank=0, world_size=3), replace(report(rank=1, world_size=3), requests=1), report(rank=2)]
    (found,) = early_findings(early)
    assert (found.rule, found.where) == ("workers-report-early", "workers")
    assert "what rank 0, 2 reports is from before the first answer" in found.message
    assert early_findings([replace(report(), requests=1)]) == ()
