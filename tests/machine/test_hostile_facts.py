"""Facts files of strangers: damaged, strange or hostile, each is an error with its place, or read and used as it is."""

import copy
import json
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "planning"))
import cases
from recorded import file_of

from toolkit.display.machine_text import render as render_machine
from toolkit.display.page import laid_out
from toolkit.display.plain import visible
from toolkit.errors import ConfigurationError
from toolkit.machine import facts_file
from toolkit.machine.chosen import recorded
from toolkit.machine.facts import MachineFacts
from toolkit.planning.diagnosis import diagnose
from toolkit.planning.make import make_plan

DOCUMENT = json.loads(file_of("v100_sxm2_32gb_x4").read_text())
VALUES = (
    None, True, -1, -2, 0, 1.5, 10**18, 10**30, 10**4000, "", "x", "\x1b[2J\u202e<b>", "\ud800", [], {}, [[]], {"a": 1},
)  # fmt: skip


def places(value, path=()):
    """Every place of the document, of a list the first item's alone."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key)
            yield from places(item, (*path, key))
    elif isinstance(value, list) and value:
        yield (*path, 0)
        yield from places(value[0], (*path, 0))


PLACES = list(places(DOCUMENT["machine"]))


def changed(path, value):
    document = copy.deepcopy(DOCUMENT)
    place = document["machine"]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.loads(json.dumps(document))


def read(document) -> MachineFacts | ConfigurationError:
    try:
        return facts_file.from_json(document, Path("facts.json"))
    except ConfigurationError as error:
        return error


def test_any_value_in_any_place_is_an_error_or_is_used():
    used = 0
    for path in PLACES:
        for value in VALUES:
            facts = read(changed(path, value))
            if isinstance(facts, ConfigurationError):
                assert facts.why.startswith("machine")
                assert facts.fix
                continue
            found = diagnose(facts)
            laid_out(render_machine(facts, found)).encode("utf-8", "backslashreplace")
            make_plan(cases.on_v100(), "", cases.facts(), facts)
            used += 1
    assert used > 200
    assert len(PLACES) > 60


def test_what_is_absent_is_an_error_or_has_a_default():
    for path in PLACES:
        document = changed(path, None)
        place = document["machine"]
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]
        facts = read(document)
        if isinstance(facts, ConfigurationError):
            assert facts.why.startswith("machine")
        else:
            laid_out(render_machine(facts, diagnose(facts)))


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (2**63, "machine.memory_bytes: a number of 19 digits is more than any machine counts to"),
        (-1, "machine.memory_bytes: -1 is less than nothing"),
    ],
)
def test_a_number_that_no_machine_has_is_refused(number, why):
    with pytest.raises(ConfigurationError) as caught:
        facts_file.from_json(changed(("memory_bytes",), number), Path("facts.json"))
    assert caught.value.why == why


@pytest.mark.parametrize("schema", [True, 1.0, "1", None, 0, 2, [1]], ids=repr)
def test_another_schema_is_refused(schema):
    with pytest.raises(ConfigurationError, match="no machine facts") as caught:
        facts_file.from_json({**DOCUMENT, "schema": schema}, Path("facts.json"))
    assert caught.value.why == f"it has schema {schema!r}, and this toolkit reads schema 1"


FILES = {
    b"": "it is empty",
    b"\xff\xfe{}": "wrong JSON: byte 0 is no UTF-8",
    b"{": "wrong JSON at line 1, column 2",
    b"[" * 10**5: "wrong JSON: nested too deeply",
    b'{"schema": 1}': "it has no 'schema' and 'machine'",
    b" " * (16 * 2**20 + 1): "it has more than 16 MiB",
}


@pytest.mark.parametrize("data", FILES, ids=lambda data: repr(data[:20]))
def test_a_file_that_holds_none(tmp_path, data):
    (tmp_path / "facts.json").write_bytes(data)
    with pytest.raises(ConfigurationError, match="no machine facts") as caught:
        recorded(str(tmp_path / "facts.json"))
    assert caught.value.why.startswith(FILES[data])
    assert caught.value.fix == facts_file.RECORD


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("none", "No such file or directory"),
        (".", "Is a directory"),
        ("file/x", "Not a directory"),
        ("a" * 300, "File name too long"),
    ],
)
def test_a_name_of_no_file(tmp_path, name, why):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot be read") as caught:
        recorded(f"{tmp_path}/{name}")
    assert caught.value.why == why


def test_a_pipe_that_nobody_writes_into_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigurationError) as caught:
        recorded(str(tmp_path / "pipe"))
    assert caught.value.why == "it is empty"


def test_a_pipe_that_somebody_writes_into_is_read():
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.close(reader)
        with os.fdopen(writer, "wb") as file:
            file.write(json.dumps(DOCUMENT).encode())
        os._exit(0)
    os.close(writer)
    assert recorded(f"/dev/fd/{reader}") == recorded(str(file_of("v100_sxm2_32gb_x4")))
    os.close(reader)
    os.wait()


def test_names_of_strangers_reach_no_terminal():
    evil = "\x1b[2J\x9b\u202e"
    for path in PLACES:
        facts = read(changed(path, evil))
        if not isinstance(facts, ConfigurationError):  # an error is made visible where it is printed
            said = laid_out(render_machine(facts, diagnose(facts)))
            assert visible(said) == said
