"""The verbs materialize, verify and gc as a user types them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "views"))

from view_samples import make_base, pack_for, scales_for, snapshot, write_pack


def run(verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"toolkit.{verb}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def document(verb: str, *arguments: str, code: int = 0) -> dict[str, Any]:
    done = run(verb, *arguments, "output=json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return make_base(tmp_path / "the base")


@pytest.fixture
def arguments(tmp_path: Path, base: Path) -> list[str]:
    pack = write_pack(tmp_path / "pack", pack_for(base, scales_for()))
    return [
        "checkpoint.source.kind=local",
        f"checkpoint.source.path='{base}'",
        f"overlay.path={pack}",
        f"views.root={tmp_path / 'store'}",
    ]


def test_make_verify_damage_repair_and_collect(tmp_path: Path, base: Path, arguments: list[str]) -> None:
    root, before = f"views.root={tmp_path / 'store'}", snapshot(base)
    would = document("materialize", *arguments, "dry_run=true")
    assert not would["built"]
    assert not (tmp_path / "store").exists()
    made = document("materialize", *arguments)
    assert made["path"] == would["path"]
    view = Path(made["path"])
    assert made["built"]
    assert made["linked"] == {"symlink": 5}
    assert made["name"] == view.name == f"smollm2-{made['digest'][:12]}"
    shard = view / "model-kvscales.safetensors"
    shard.write_bytes(shard.read_bytes()[:-4] + bytes(4))
    broken = document("verify", root, code=5)["views"][0]
    assert [(fault["path"], fault["owner"]) for fault in broken["faults"]] == [(shard.name, "view")]
    mended = document("verify", root, "repair=true")["views"][0]
    assert mended["ok"]
    assert mended["repaired"]

    assert document("gc", root, "dry_run=true")["freed"] == []
    assert view.is_dir()
    assert document("gc", root)["freed"] == [view.name]
    assert not view.exists()
    assert snapshot(base) == before


def test_the_text_says_what_and_how_much(tmp_path: Path, base: Path, arguments: list[str]) -> None:
    made = run("materialize", *arguments)
    lines = made.stdout.splitlines()
    assert lines[0].startswith(f"{tmp_path}/store/smollm2-")
    assert lines[1].startswith(f"  files of {base}: 5 by symlink; ")
    assert (
        lines[2]
        == "  its own files: kvscales-provenance.json, model-kvscales.safetensors, model.safetensors.index.json"
    )
    (base / "config.json").write_text("{}")
    verified = run("verify", f"views.root={tmp_path / 'store'}")
    assert verified.returncode == 5
    assert "  config.json (the base's): has 2 bytes, it had " in verified.stdout
    freed = run("gc", f"views.root={tmp_path / 'store'}").stdout.splitlines()
    assert freed[1].startswith(f"  free {Path(lines[0]).name}: nobody uses it, ")
    assert freed[-1].startswith("1 folder removed, ")


def test_mistakes_are_told_without_a_traceback(tmp_path: Path, arguments: list[str]) -> None:
    edit = run("materialize", *arguments, "views.edits=[{file: config.json, op: remove, path: /nothing}]")
    assert edit.returncode == 2
    assert edit.stderr.splitlines()[0] == (
        "error: the edit of config.json matches nothing: remove /nothing: there is no 'nothing'"
    )
    (tmp_path / "file").write_text("")
    root = tmp_path / "file" / "store"
    blocked = run("materialize", *arguments[:-1], f"views.root={root}")
    assert blocked.returncode == 5
    assert blocked.stderr.splitlines()[0] == f"error: the view store {root} cannot be changed: File exists"
    absent = run("materialize", "+recipe=dcp2_e4m3", "dry_run=true")
    assert absent.returncode == 5
    assert absent.stderr.splitlines()[0].startswith("error: the view is not known yet: RadixArk/Qwen3.8-Flash-Next")
    assert "Traceback" not in edit.stderr + blocked.stderr + absent.stderr
