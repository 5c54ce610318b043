"""`status` and `stop` from another shell."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from test_serve import TINY, harness, serve  # noqa: F401  (the fixture)


def verb(name: str, runs: Path, *arguments: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", f"toolkit.{name}", f"runs={runs}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def ready(serve):  # noqa: F811
    one = serve(TINY, children=["session", "daemon"])
    one.wait_for("ready")
    return one


def test_status_shows_a_living_run_and_stop_ends_it(ready):
    code, out, _ = verb("status", ready.runs)
    assert code == 0
    assert out.splitlines()[0].split() == ["run", "state", "since", "model", "address", "serve"]
    assert out.splitlines()[1].split()[:2] == [ready.run.name, "ready"]
    code, out, err = verb("stop", ready.runs)
    assert (code, out) == (0, f"{ready.run.name}: stopped\n"), err
    assert ready.nothing_is_left()
    assert ready.end()[0] == 143
    assert ready.state["reason"] == "stopped by SIGTERM"
    assert verb("stop", ready.runs)[0] == 2


def test_status_as_json(ready):
    _, out, _ = verb("status", ready.runs, "output=json")
    run = json.loads(out)["runs"][0]
    assert (run["run"], run["state"], run["alive"], run["stale"]) == (ready.run.name, "ready", True, False)
    assert run["engine"]["pid"] in run["engine_processes"]
    assert run["warden"]["pid"] not in run["engine_processes"]


def test_a_killed_serve_is_recognised_as_dead(ready):
    ready.process.kill()
    ready.process.wait()
    harness.until(ready.nothing_is_left)
    _, out, _ = verb("status", ready.runs)
    assert "dead (it was ready when its serve process was killed; no engine process remains)" in out
    code, _, err = verb("stop", ready.runs)
    assert code == 2
    assert err.startswith("error: no run is alive\n")


def test_what_a_killed_run_left_is_cleared_by_stop(ready):
    helpers = harness.helper_pids(ready.run / "serve.log", 2)
    os.kill(ready.process.pid, signal.SIGSTOP)
    os.kill(ready.state["warden"]["pid"], signal.SIGKILL)
    ready.process.kill()
    ready.process.wait()
    assert "2 engine processes remain" in verb("status", ready.runs)[1]
    code, out, _ = verb("stop", ready.runs, f"run={ready.run.name}")
    assert code == 0
    assert out == f"{ready.run.name}: its serve process was dead already; whatever was left is gone\n"
    assert harness.gone(helpers)


def test_two_living_runs_must_be_told_apart(serve):  # noqa: F811
    one = serve(TINY)
    two = serve(TINY, f"runs={one.runs}")
    one.wait_for("ready")
    harness.until(lambda: len(list(one.runs.glob("*/state.json"))) == 2, 60.0)
    code, _, err = verb("stop", one.runs)
    assert code == 2
    assert err.startswith("error: 2 runs are alive\n")
    for run in list(one.runs.iterdir()):
        assert verb("stop", one.runs, f"run={run.name}")[0] == 0
    assert {one.end()[0], two.end()[0]} == {143}


def test_a_damaged_state_is_told_while_the_run_serves(ready):
    (ready.run / "state.json").write_text("{")
    code, out, err = verb("status", ready.runs)
    assert (code, out) == (5, "")
    lines = err.splitlines()
    assert lines[0] == f"error: the state of run {ready.run.name} is damaged"
    assert lines[1] == f"  where: {ready.run / 'state.json'}"
    assert lines[2].startswith("  why: it is not JSON: ")
    living = harness.marked(ready.run)
    pids = [int(word) for word in lines[3].partition("(kill ")[2].partition(")")[0].split()]
    assert sorted(pids) == sorted(living)
    for arguments in ([], [f"run={ready.run.name}"]):
        assert verb("stop", ready.runs, *arguments)[::2] == (5, err)
    document = json.loads(verb("status", ready.runs, "output=json")[1])
    assert (document["runs"], len(document["damaged"])) == ([], 1)
    assert sorted(document["damaged"][0]["engine_processes"]) == sorted(living)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    harness.until(ready.nothing_is_left)


def test_a_damaged_state_of_a_dead_run_hides_no_other(ready):
    old = ready.runs / "old"
    old.mkdir()
    (old / "state.json").write_text('{"schema": 99}')
    code, out, err = verb("status", ready.runs)
    assert code == 5
    assert [line.split()[1] for line in out.splitlines()[1:]] == ["ready"]
    assert "why: its schema is another than 1" in err
    assert f"fix: remove the folder {old}" in err
    assert verb("status", ready.runs, "run=old")[0] == 5
    assert verb("stop", ready.runs)[0] == 0, "a dead run does not keep the living one from being stopped"


@pytest.mark.parametrize("name", ["status", "stop"])
def test_a_file_is_no_folder_of_runs(tmp_path, name):
    (tmp_path / "file").write_text("")
    code, out, err = verb(name, tmp_path / "file")
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        "error: the folder of runs cannot be read",
        f"  where: {tmp_path / 'file'}",
        "  why: Not a directory",
        "  fix: set runs=FOLDER",
    ]


def test_an_unknown_run_and_an_empty_folder(tmp_path):
    code, _, err = verb("stop", tmp_path, "run=nobody")
    assert code == 2
    assert err.startswith("error: no run is named nobody\n")
    assert verb("status", tmp_path)[:2] == (0, f"no runs in {tmp_path}\n")
    assert list(tmp_path.iterdir()) == []
