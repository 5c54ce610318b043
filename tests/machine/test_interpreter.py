"""What interpreters say of themselves; those that say nothing are named with the reason."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import pytest

from toolkit.config.schema.engine import EngineConfig
from toolkit.machine import interpreter
from toolkit.machine.facts import MachineFacts
from toolkit.machine.interpreter import SilentInterpreterError, ask, with_interpreter

ROOT = Path(__file__).parents[2]


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_this_one_names_its_folders_and_the_toolkit():
    said = ask(sys.executable)
    assert sysconfig.get_path("stdlib") in said.standard
    assert sysconfig.get_path("purelib") in said.packages
    assert str(ROOT) not in said.packages
    assert (said.toolkit, said.python) == (str(ROOT), sys.version.split()[0])
    assert said.versions["volta-toolkit"]
    assert said.added == ()


def test_the_shells_variables_and_the_working_directory_are_kept_out(tmp_path, monkeypatch):
    (tmp_path / "toolkit").mkdir()
    (tmp_path / "toolkit/__init__.py").touch()
    (tmp_path / "json.py").write_text("raise SystemExit('shadowed')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert ask(sys.executable).toolkit == str(ROOT)


def test_what_the_plan_adds_is_put_first(tmp_path):
    (tmp_path / "torch-9.9.dist-info").mkdir()
    (tmp_path / "torch-9.9.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 9.9\n")
    said = ask(sys.executable, [str(tmp_path)])
    assert (said.added, said.versions["torch"]) == ((str(tmp_path),), "9.9")


@pytest.mark.parametrize("said", ["echo a .pth file says hello", "printf '{} [] no end of a line'"])
def test_what_an_environment_prints_at_the_start_of_python_is_passed_over(said, tmp_path):
    python = script(tmp_path / "python", f'{said}\nexec {sys.executable} "$@"')
    assert ask(python).packages == ask(sys.executable).packages


SILENT = [
    ("echo nonsense", "answers what is no description of itself"),
    ("echo '[]'", "answers what is no description of itself: its answer: it must be an object"),
    ("echo broken >&2; exit 3", "ended with exit code 3: broken"),
    ("exit 1", "ended with exit code 1: without a word"),
    ("sleep 60", "did not answer within 0.3 s"),
]


@pytest.mark.parametrize(("text", "why"), SILENT)
def test_a_silent_one_is_named_with_the_reason(text, why, tmp_path, monkeypatch):
    monkeypatch.setattr(interpreter, "TIMEOUT_S", 0.3 if "sleep" in text else 30.0)
    python = script(tmp_path / "python", text)
    with pytest.raises(SilentInterpreterError) as caught:
        ask(python)
    assert f"{python} {why}" in str(caught.value)


def test_one_that_is_not_there_is_named_with_the_reason():
    with pytest.raises(SilentInterpreterError, match=r"/nowhere/python cannot be started: No such file"):
        ask("/nowhere/python")


def test_the_reason_is_a_fact_of_the_machine(tmp_path):
    machine = MachineFacts("x86_64", 1, frozenset(), 1, 1, (3, 11, 7), sys.executable)
    asked = with_interpreter(machine, EngineConfig(environment={"PYTHONPATH": f":{tmp_path}:"}))
    assert asked.interpreter is not None
    assert (asked.interpreter.added, asked.unread) == ((str(tmp_path),), {})
    silent = with_interpreter(machine, EngineConfig(python="/nowhere/python"))
    assert silent.interpreter is None
    assert silent.unread["interpreter"].startswith("/nowhere/python cannot be started")
