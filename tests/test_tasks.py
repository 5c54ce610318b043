"""`invoke VERB` is `python -m toolkit.VERB`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]


def plain() -> dict[str, str]:
    """The environment of a user without folders of his own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}


def invoke(*arguments: str, home: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = plain()
    environment |= {"HOME": str(home)} if home else {}
    command = [sys.executable, "-m", "invoke", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_every_console_script_is_a_task_with_a_sentence() -> None:
    listed = json.loads(invoke("--list", "--list-format=json").stdout)["tasks"]
    names = {name.removeprefix("toolkit-") for name in SCRIPTS} | {"test", "lint", "docs", "lock"}
    assert {item["name"] for item in listed} == names
    assert [item["name"] for item in listed if not item["help"].endswith(".")] == []


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_every_console_script_names_a_module_here(name: str) -> None:
    module, function = SCRIPTS[name].split(":")
    assert module == "toolkit." + name.removeprefix("toolkit-")
    source = ROOT / f"{module.replace('.', '/')}.py"
    assert f"def {function}(" in source.read_text()


def test_arguments_and_exit_codes_pass_through_as_they_are() -> None:
    arguments = ["+recipe=smollm2_cpu", "checkpoint.source.path='a  b'", "limits.max_model_lenn=1"]
    ours = invoke("plan", "--", *arguments)
    command = [sys.executable, "-m", "toolkit.plan", *arguments]
    direct = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ours.returncode, ours.stdout, ours.stderr) == (direct.returncode, direct.stdout, direct.stderr)
    assert ours.returncode == 2
    assert "max_model_len" in ours.stderr


def test_the_output_of_a_verb_is_not_touched() -> None:
    ours = invoke("plan", "--", "+recipe=dcp2_e4m3", "output=json")
    direct = subprocess.run(
        [sys.executable, "-m", "toolkit.plan", "+recipe=dcp2_e4m3", "output=json"],
        cwd=ROOT,
        env=plain(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ours.stdout == direct.stdout
    assert ours.returncode == direct.returncode


def test_a_task_after_a_verb_still_runs_with_the_same_arguments(tmp_path: Path) -> None:
    result = invoke("status", "verify", "--", "output=json", home=tmp_path)
    assert result.returncode == 0, result.stderr
    decoder = json.JSONDecoder()
    _, end = decoder.raw_decode(result.stdout)
    decoder.raw_decode(result.stdout[end:].lstrip())
