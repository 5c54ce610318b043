"""Runs that have ended go beyond the limits that are set, and no other folder does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from toolkit.errors import CheckFailedError, ConfigurationError
from toolkit.linux.proc import identify
from toolkit.runs import garbage as removing
from toolkit.runs.folder import RunFolder, all_runs
from toolkit.runs.garbage import DAY_S, Keep, collect, inventory
from toolkit.runs.listing import look
from toolkit.runs.state import RunState, State

NOW = 1_800_000_000.0
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def gone():
    """The identity of a process that has ended."""
    child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    identity = identify(child.pid)
    child.communicate()
    return identity


def made(root: Path, name: str, serve, *, days: float = 0.0, state: State = State.stopped) -> RunFolder:
    folder = RunFolder(root / name)
    (folder.workers).mkdir(parents=True)
    (folder.workers / "rank0.json").write_text("{}")
    folder.receipt.write_text("{}")
    written = RunState(name, state, NOW - days * DAY_S, "m", "http://127.0.0.1:1", 15.0, serve)
    folder.state.write_text(json.dumps(written.to_json()))
    return folder


def gone_of(root: Path, keep: Keep) -> list[str]:
    return [garbage.name for garbage in inventory(look(root), keep, NOW).garbage]


def test_the_newest_and_the_youngest_stay(tmp_path, gone):
    for days in (1, 2, 3, 4):
        made(tmp_path, f"ended-{days}", gone, days=days)
    assert gone_of(tmp_path, Keep()) == []
    assert gone_of(tmp_path, Keep(newest=0)) == ["ended-1", "ended-2", "ended-3", "ended-4"]
    assert gone_of(tmp_path, Keep(newest=3)) == ["ended-4"]
    assert gone_of(tmp_path, Keep(days=1.5)) == ["ended-2", "ended-3", "ended-4"]
    assert gone_of(tmp_path, Keep(newest=3, days=1.5)) == ["ended-4"]
    assert gone_of(tmp_path, Keep(newest=1, days=3.5)) == ["ended-4"]


def test_what_lives_or_cannot_be_read_stays_and_counts_for_nothing(tmp_path, gone):
    here = identify(os.getpid())
    made(tmp_path, "ready", here, days=9, state=State.ready)
    made(tmp_path, "about-to-start", here, days=9)
    made(tmp_path, "killed", gone, days=9, state=State.ready)
    made(tmp_path, "damaged", gone).state.write_text("{")
    elsewhere = made(tmp_path / "elsewhere", "linked", gone, days=9)
    (tmp_path / "linked").symlink_to(elsewhere.path)
    (tmp_path / "notes").mkdir()
    found = inventory(look(tmp_path), Keep(newest=0), NOW)
    assert [garbage.name for garbage in found.garbage] == ["killed"]
    assert {kept.name: kept.reason for kept in found.kept} == {
        "ready": "alive",
        "about-to-start": "alive",
        "linked": "a link to a folder elsewhere",
        "damaged": "its state is damaged; remove it by hand",
    }


def test_a_run_is_removed_whole(tmp_path, gone):
    folder = made(tmp_path, "old", gone, days=9)
    outside = tmp_path / "model"
    outside.mkdir()
    (outside / "weights").write_text("x")
    (folder.path / "link").symlink_to(outside)
    freed = []
    collect(tmp_path, inventory(look(tmp_path), Keep(newest=0), NOW), freed.append)
    assert [garbage.name for garbage in freed] == ["old"]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["model", "weights"]


def test_a_removal_that_fails_half_way_leaves_a_run_that_is_listed(tmp_path, gone, monkeypatch):
    folder = made(tmp_path, "old", gone, days=9)

    def fails(path):
        raise OSError(5, "Input/output error", str(path))

    monkeypatch.setattr(removing.shutil, "rmtree", fails)
    with pytest.raises(CheckFailedError, match="a run cannot be removed"):
        collect(tmp_path, inventory(look(tmp_path), Keep(newest=0), NOW), lambda _: None)
    assert all_runs(tmp_path) == [folder]
    monkeypatch.undo()
    collect(tmp_path, inventory(look(tmp_path), Keep(newest=0), NOW), lambda _: None)
    assert not folder.path.exists()


@pytest.mark.parametrize("keep", [{"newest": -1}, {"days": -0.5}, {"days": float("nan")}, {"days": float("inf")}])
def test_limits_that_are_none(keep):
    with pytest.raises(ConfigurationError, match="is no number to keep"):
        Keep(**keep)


def test_the_verb_removes_runs_only_where_it_is_asked_to(tmp_path, gone):
    made(tmp_path / "runs", "old", gone, days=9)

    def document(*arguments):
        places = [f"runs={tmp_path / 'runs'}", f"views.root={tmp_path / 'views'}", "output=json"]
        command = [sys.executable, "-m", "toolkit.gc", *places, *arguments]
        return json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)

    assert "runs" not in document()
    assert [run["name"] for run in document("keep_runs=0", "dry_run=true")["runs"]["garbage"]] == ["old"]
    assert document("keep_runs=0")["runs"]["freed"] == ["old"]
    assert list((tmp_path / "runs").iterdir()) == []
