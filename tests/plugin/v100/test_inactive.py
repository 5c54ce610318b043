"""The plugin where it has nothing to do, and where it must not be taken for vLLM's own platform."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from .conftest import SCRIPTS, Run, last_json

WITHOUT = {"VLLM_PLUGINS": ""}
OURS = {
    "toolkit",
    "toolkit.machine",
    "toolkit.machine.visible_devices",
    "toolkit.planning",
    "toolkit.planning.platform_demand",
    "toolkit.plugin",
    "toolkit.plugin.platform",
    "toolkit.plugin.platform.decision",
    "toolkit.plugin.platform.devices",
    "toolkit.plugin.platform.entry",
    "toolkit.plugin.register",
}
"""All that is imported of the toolkit to find that there is nothing to do."""


def compared(with_ours: dict[str, Any], without: dict[str, Any]) -> dict[str, Any]:
    """What differs, but for the modules that ask."""
    assert without.pop("ours") == []
    assert set(with_ours.pop("ours")) <= OURS
    assert with_ours["vllm"].startswith("0.32.0")
    return {name: (with_ours[name], without[name]) for name in without if with_ours[name] != without[name]}


@pytest.mark.parametrize("gpus", ["", "9.0", "8.0,8.0", "7.0,9.0"])
def test_on_other_gpus_vllm_is_as_it_is_without_the_plugin(run: Run, gpus: str) -> None:
    with_ours, without = (
        last_json(run("untouched", "without natives", VOLTA_TEST_GPUS=gpus, **more)) for more in ({}, WITHOUT)
    )
    platform = "cuda.NvmlCudaPlatform" if gpus else "interface.UnspecifiedPlatform"
    assert without["platform"] == f"vllm.platforms.{platform}"
    assert compared(with_ours, without) == {}


def test_the_cpu_engine_differs_by_the_backend_that_keeps_fp8_caches_alone() -> None:
    def answer(**more: str) -> dict[str, Any]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        command = [sys.executable, "-P", str(SCRIPTS / "untouched.py")]
        done = subprocess.run(command, env={**kept, **more}, capture_output=True, text=True, timeout=240, check=True)
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    differing = compared(answer(), answer(**WITHOUT))
    assert differing.keys() == {"backends"}
    ours, theirs = differing["backends"]
    assert {name for name in theirs if ours[name] != theirs[name]} == {"CPU_ATTN"}


@pytest.mark.parametrize("release", ["0.31.2", "0.33.0"])
def test_another_vllm_on_v100s_is_refused_with_one_sentence(run: Run, release: str) -> None:
    answer = run("broken", "release", release, VOLTA_TEST_GPUS="7.0")
    assert answer.returncode == 1
    assert answer.stderr.splitlines()[-1] == (
        f"RuntimeError: engine=v100 cannot start: vLLM is {release}, and this plugin is made for 0.32.x: "
        "pip install vllm==0.32.0, or set VLLM_PLUGINS= to leave vLLM as it is"
    )
    assert answer.stdout == ""


def test_another_vllm_that_cannot_list_its_gpus_is_refused_for_what_it_is(run: Run) -> None:
    answer = run("broken", "release", "0.41.0", "without-nvml", VOLTA_TEST_GPUS="7.0", VOLTA_PLATFORM="v100")
    assert answer.returncode == 1
    assert (
        "engine=v100 cannot start: vLLM is 0.41.0, and this plugin is made for 0.32.x" in answer.stderr.splitlines()[-1]
    )


def test_another_vllm_that_cannot_list_its_gpus_is_told_where_nobody_demanded(run: Run) -> None:
    """It would be taken for a machine without GPUs otherwise, and vLLM's own platform for the plugin's."""
    answer = run("broken", "release", "0.41.0", "without-nvml", VOLTA_TEST_GPUS="7.0")
    assert "The volta plugin failed and leaves vLLM as it is: ImportError: " in answer.stdout + answer.stderr


def test_another_vllm_is_left_alone_where_it_is_told_to_have_no_plugins(run: Run) -> None:
    assert "cannot start" not in run("broken", "release", "0.33.0", VOLTA_TEST_GPUS="7.0", **WITHOUT).stderr


def test_a_plugin_that_fails_ends_the_process_where_the_platform_was_demanded(run: Run) -> None:
    """Without this vLLM would note it at debug level and start its own platform for CUDA."""
    answer = run("broken", "fault", VOLTA_TEST_GPUS="7.0", VOLTA_PLATFORM="v100")
    assert answer.returncode == 1
    assert answer.stderr.splitlines()[-1] == "RuntimeError: engine=v100 cannot start: OSError: no such driver"


def test_a_plugin_that_fails_is_told_where_it_was_not_demanded(run: Run) -> None:
    answer = run("broken", "fault", VOLTA_TEST_GPUS="7.0")
    assert "The volta plugin failed and leaves vLLM as it is: OSError: no such driver" in answer.stdout + answer.stderr
