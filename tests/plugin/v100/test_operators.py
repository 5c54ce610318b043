"""Upstream's operators as they are defined in a real process."""

from __future__ import annotations

from typing import Any

from toolkit.plugin.operators import schemas, states
from toolkit.plugin.operators.states import Kind, state_of

from .conftest import Run, last_json

EVERY = {schema.qualified: schema for schema in schemas.read()}


def test_every_name_is_defined_with_upstreams_schema(report: dict[str, Any]) -> None:
    assert report["operators"].keys() == EVERY.keys()
    assert [name for name, found in report["operators"].items() if not found["same"]] == []


def test_ours_take_what_upstreams_take(report: dict[str, Any]) -> None:
    ours = {name: found["ours"] for name, found in report["operators"].items() if "ours" in found}
    assert ours.keys() == {name for name in EVERY if state_of(EVERY[name]).kind is Kind.native}
    assert {name: pair for name, pair in ours.items() if pair[0] != pair[1]} == {}


def test_a_probe_answers_and_a_refusal_is_its_one_sentence(report: dict[str, Any]) -> None:
    for name, found in report["operators"].items():
        state = state_of(EVERY[name])
        if state.kind is Kind.answer:
            assert found["called"] == ["answer", states.ANSWERS[name].answer]
        elif state.kind is not Kind.native:
            assert found["called"] == ["refusal", f"{name} is {state.kind.value} on SM70: {state.note}"]


def test_vllms_own_wrappers_of_caches_and_merges_reach_ours(run: Run) -> None:
    found = last_json(run("wrappers", VOLTA_TEST_GPUS="7.0", VOLTA_PLATFORM="v100"))
    assert found["right"] == [True, True, True]
    names = ("reshape_and_cache", "reshape_and_cache_flash", "swap_blocks", "swap_blocks_batch")
    assert found["called"] == ["_C::merge_attn_states", *(f"_C_cache_ops::{name}" for name in names)]


def test_the_attention_kernels_e4m3_helper_decodes_all_256_codes(run: Run) -> None:
    found = last_json(run("e4m3", VOLTA_TEST_GPUS="7.0", VOLTA_PLATFORM="v100", TRITON_INTERPRET="1"))
    assert found["different"] == []
    assert found["signs"]
    assert found["nan"] == [0x7F, 0xFF]
    assert found["written_for"]
    assert "was written for a source with digest c75f7e20b8ca2890, and this one has " in found["refusal"]
