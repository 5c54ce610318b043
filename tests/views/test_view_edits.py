"""Edits of JSON files: each changes something, or is an error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolkit.errors import ConfigurationError
from toolkit.views.edits import apply_edits, read_edit

TEXT = json.dumps({"dtype": "bfloat16", "rope": {"theta": 1.0, "a/b": 1}, "eos": [1, 2]}).encode()

INDEX_OR_WEIGHTS = "only JSON files are edited, and not those that a view makes by itself"


def edit(**data: Any) -> dict[str, Any]:
    return {"file": "config.json", **data}


def apply(*edits: dict[str, Any]) -> dict[str, Any]:
    return json.loads(apply_edits({"config.json": TEXT}, [read_edit(data) for data in edits])["config.json"])


def first_line(*edits: dict[str, Any]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        apply(*edits)
    return str(caught.value).splitlines()[0]


def test_edits_apply_in_order() -> None:
    changed = apply(
        edit(op="replace", path="/dtype", value="float16", was="bfloat16"),
        edit(op="add", path="/new", value={"deep": None}),
        edit(op="replace", path="/new/deep", value=[1]),
        edit(op="remove", path="/rope/a~1b"),
        edit(op="add", path="/eos/-", value=3),
        edit(op="add", path="/eos/0", value=0),
        edit(op="remove", path="/eos/1"),
    )
    assert changed == {"dtype": "float16", "rope": {"theta": 1.0}, "eos": [0, 2, 3], "new": {"deep": [1]}}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (edit(op="replace", path="/dtyp", value=1), "replace /dtyp: there is no 'dtyp'"),
        (edit(op="remove", path="/rope/x"), "remove /rope/x: there is no 'x'"),
        (edit(op="replace", path="/no/x", value=1), "replace /no/x: there is no 'no'"),
        (edit(op="add", path="/dtype", value=1), "add /dtype: 'dtype' is there already"),
        (edit(op="replace", path="/dtype", value="bfloat16"), "replace /dtype: the value is there already"),
        (edit(op="replace", path="/rope/theta", value=1, was=1), "replace /rope/theta: the value is 1.0, not 1"),
        (edit(op="replace", path="/eos/2", value=1), "replace /eos/2: the list has no item '2'"),
        (edit(op="replace", path="/eos/1", value=2), "replace /eos/1: the value is there already"),
        (edit(op="add", path="/dtype/x", value=1), "add /dtype/x: what holds 'x' is neither an object nor a list"),
        (
            edit(op="remove", path="/eos/" + "9" * 5000),
            f"remove /eos/{'9' * 5000}: the list has no item '{'9' * 5000}'",
        ),
        (edit(op="remove", path=""), "remove : a whole document is not replaced"),
        ({"file": "gone.json", "op": "remove", "path": "/x"}, "remove /x: the checkpoint has no such file"),
    ],
)
def test_an_edit_that_matches_nothing(data: dict[str, Any], reason: str) -> None:
    assert first_line(data) == f"the edit of {data['file']} matches nothing: {reason}"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"op": "remove"}, "an edit needs file, op and path"),
        (edit(op="remove", path="/x", vale=1), "an edit has no key 'vale'"),
        (edit(op="test", path="/x"), "an edit's op is replace, add, remove, not 'test'"),
        (edit(op="add", path="/x"), "op add needs a value"),
        (edit(op="remove", path="/x", value=1), "op remove takes no value"),
        (edit(op="remove", path="x"), "an edit's path is a JSON pointer such as /dtype, not 'x'"),
        (
            {"file": "../config.json", "op": "remove", "path": "/x"},
            "an edit names the file '../config.json', which is not inside the checkpoint's folder",
        ),
        (
            {"file": "/etc/x.json", "op": "remove", "path": "/x"},
            "an edit names the file '/etc/x.json', which is not inside the checkpoint's folder",
        ),
        (
            {"file": "model.safetensors", "op": "remove", "path": "/x"},
            f"an edit names 'model.safetensors': {INDEX_OR_WEIGHTS}",
        ),
        (
            {"file": "kvscales-provenance.json", "op": "remove", "path": "/x"},
            f"an edit names 'kvscales-provenance.json': {INDEX_OR_WEIGHTS}",
        ),
        (
            {"file": 5, "op": "remove", "path": "/x"},
            "an edit names the file 5, which is not inside the checkpoint's folder",
        ),
        (edit(op=["add"], path="/x", value=1), "an edit's op is replace, add, remove, not ['add']"),
        (edit(op="remove", path=5), "an edit's path is a JSON pointer such as /dtype, not 5"),
        (edit(op="remove", path="/~2"), "an edit's path is a JSON pointer such as /dtype, not '/~2'"),
        *[
            (edit(op="add", path="/x", value=value), "an edit's value is nothing that JSON can hold")
            for value in (
                float("nan"),
                [float("inf")],
                {1: 2},
                {"a": {1, 2}},
                10**5000,
                json.loads("[" * 99 + "]" * 99),
            )
        ],
        (edit(op="add", path="/x", value=1, was={1}), "an edit's was is nothing that JSON can hold"),
    ],
)
def test_an_edit_that_is_none(data: dict[str, Any], text: str) -> None:
    assert first_line(data) == text


def test_half_a_surrogate_pair_is_kept_as_json_can() -> None:
    text = b'{"a": "\\ud800", "b": "\xc3\xa9"}'
    changed = apply_edits({"config.json": text}, [read_edit(edit(op="add", path="/c", value="\udfff"))])["config.json"]
    assert json.loads(changed.decode("utf-8")) == {"a": "\ud800", "b": "é", "c": "\udfff"}


def test_a_file_that_is_no_json() -> None:
    with pytest.raises(ConfigurationError) as caught:
        apply_edits({"config.json": b'{"a":1,"a":2}'}, [read_edit(edit(op="remove", path="/a"))])
    assert str(caught.value).splitlines()[0] == "config.json cannot be edited: duplicate key 'a'"


def test_an_edit_survives_being_written_down() -> None:
    for data in (edit(op="replace", path="/dtype", value=None, was=None), edit(op="remove", path="/dtype")):
        assert read_edit(data).to_data() == data
