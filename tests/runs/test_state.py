"""The state has one writer, known transitions, and is recognised when it is stale."""

import itertools
import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from toolkit.linux.proc import identify
from toolkit.runs.state import NEXT, State, StateFile, read_state


@pytest.fixture
def file(tmp_path):
    return StateFile(tmp_path / "state.json", "run-1", "m", "http://127.0.0.1:1", 15.0)


def test_it_is_written_and_read_back(file, tmp_path):
    file.move(State.starting)
    file.started(os.getppid(), os.getpid())
    assert read_state(tmp_path / "state.json") == file.current
    assert file.current.engine == identify(os.getpid())
    assert not file.current.stale


WAYS = [(first, second) for first, second in itertools.product(State, State) if second not in NEXT[first]]


@pytest.mark.parametrize(("first", "second"), WAYS)
def test_other_transitions_do_not_exist(file, first, second):
    file.current = replace(file.current, state=first)
    with pytest.raises(ValueError, match=f"no transition from {first.value} to {second.value}"):
        file.move(second)


def test_every_state_can_be_left_and_ends_stopped():
    reached = {State.stopped}
    for _ in State:
        reached |= {state for state in State if NEXT[state] & reached}
    assert reached == set(State)


def test_a_dead_writer_makes_a_state_stale(file):
    file.move(State.starting)
    child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    state = replace(file.current, serve=identify(child.pid))
    assert not state.stale
    child.communicate(b"\n")
    assert state.stale
    assert not replace(state, state=State.stopped).stale


def test_a_reused_pid_is_not_taken_for_the_writer(file):
    file.move(State.starting)
    other = replace(file.current.serve, started=file.current.serve.started - 1)
    assert replace(file.current, serve=other).stale


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"schema": 99}', '{"schema": 1, "state": "flying"}'])
def test_what_is_no_state_is_none(tmp_path, text):
    path = tmp_path / "state.json"
    path.write_text(text)
    assert read_state(path) is None
    assert read_state(tmp_path / "nothing") is None


WRONG = [
    {name: value}
    for name in ("run", "model", "address", "reason", "since", "grace_s", "state")
    for value in (None, [], {}, float("nan"), float("inf"), 1e300, -1)
] + [{"since": "x"}, {"grace_s": "x"}, {"grace_s": True}, {"serve": None}, {"serve": 1}, {"serve": []}]


@pytest.mark.parametrize("change", WRONG, ids=str)
def test_a_value_of_the_wrong_type_is_no_state(file, tmp_path, change):
    data = json.loads((tmp_path / "state.json").read_text())
    (tmp_path / "state.json").write_text(json.dumps({**data, **change}))
    assert read_state(tmp_path / "state.json") is None


@pytest.mark.parametrize("process", ["serve", "warden", "engine"])
@pytest.mark.parametrize(
    "change", [{"pid": "1"}, {"pid": 0}, {"pid": -1}, {"pid": 1.5}, {"started": None}, {"boot": 1}]
)
def test_a_process_of_the_wrong_type_is_no_state(file, tmp_path, process, change):
    file.started(os.getpid(), os.getpid())
    data = json.loads((tmp_path / "state.json").read_text())
    (tmp_path / "state.json").write_text(json.dumps({**data, process: {**data[process], **change}}))
    assert read_state(tmp_path / "state.json") is None


def test_a_state_of_a_newer_schema_is_not_misread(file, tmp_path):
    data = json.loads((tmp_path / "state.json").read_text())
    (tmp_path / "state.json").write_text(json.dumps({**data, "schema": 2}))
    assert read_state(tmp_path / "state.json") is None


def test_a_process_that_is_gone_already_is_left_out(file):
    file.started(2**22 + 1, os.getpid())
    assert file.current.warden is None
