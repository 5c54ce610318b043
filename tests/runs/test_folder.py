"""Run folders are private, named, and listed oldest first."""

import os
import subprocess
import sys

import pytest

from toolkit.errors import ConfigurationError
from toolkit.runs.folder import all_runs, create, runs_root


def test_a_folder_is_private_and_named_after_the_deployment(tmp_path):
    run = create(tmp_path / "runs", "Org/My Model:8B")
    assert run.name.startswith("Org-My-Model-8B-")
    assert run.path.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "runs").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["", "..", "../..", "///"])
def test_no_name_leads_out_of_the_root(tmp_path, name):
    assert create(tmp_path, name).path.parent == tmp_path


def test_two_at_once_get_two_folders(tmp_path):
    assert len({create(tmp_path, "m").path for _ in range(20)}) == 20


def test_a_root_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="the run folder cannot be made"):
        create(tmp_path / "file" / "runs", "m")


def test_only_folders_with_a_state_are_runs_oldest_first(tmp_path):
    assert all_runs(tmp_path / "nowhere") == []
    runs = [create(tmp_path, "m") for _ in range(3)]
    for age, run in enumerate(runs[:2]):
        run.state.write_text("{}")
        os.utime(run.state, (100 - age, 100 - age))
    assert all_runs(tmp_path) == [runs[1], runs[0]]


def test_a_root_that_is_a_file_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="the folder of runs cannot be read"):
        all_runs(tmp_path / "file")
    with pytest.raises(ConfigurationError, match="the folder of runs cannot be read"):
        all_runs(tmp_path / "file" / "runs")


def test_the_default_root_is_in_the_users_state_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert runs_root("") == tmp_path / "volta-toolkit" / "runs"
    monkeypatch.setenv("HOME", "/home/me")
    assert str(runs_root("~/r")) == "/home/me/r"


def test_a_long_name_still_makes_a_folder(tmp_path):
    assert create(tmp_path, "x" * 400).name.startswith("x" * 100 + "-")


def without_privilege(program: str, *arguments: object) -> str:
    """What a program prints that has not root's right to read everything."""
    drop = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    command = [*drop, sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.mark.parametrize(("closed", "said"), [(".", "the folder of runs cannot be read"), ("m", "[]")])
def test_what_may_not_be_read_is_told_or_passed_over(tmp_path, closed, said):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "state.json").write_text("{}")
    program = (
        "import sys; from pathlib import Path; from toolkit.errors import ToolkitError\n"
        "from toolkit.runs.folder import all_runs\n"
        "try: print(all_runs(Path(sys.argv[1])))\n"
        "except ToolkitError as error: print(error.what)"
    )
    (tmp_path / closed).chmod(0)
    try:
        assert without_privilege(program, tmp_path) == said + "\n"
    finally:
        (tmp_path / closed).chmod(0o700)
