"""Whether a run is refused when its workers are not what the plan says."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit import __version__
from toolkit.errors import CheckFailedError
from toolkit.planning.worker_report import Runtime, WorkerReport
from toolkit.serving.worker_environment import V100_PLATFORM, check_environment, planned_folders

WHERE = Path("/run/workers")
SITE = Path("/env/lib/python3.11/site-packages")


def runtime(**changes):
    values = {
        "platform": V100_PLATFORM,
        "device": "Tesla V100-SXM2-32GB",
        "capability": "7.0",
        "operators": ("_C::rms_norm",),
        "native_libraries": ("/src/build/native/volta_native.so",),
        "compilation": "VLLM_COMPILE",
        "graphs": "FULL_AND_PIECEWISE",
        "capture_sizes": (1, 2, 4),
        "kv_blocks": 100,
    }
    return Runtime(**{**values, **changes})


def report(rank=0, world_size=1, **changes):
    values = {
        "engine": "v100",
        "versions": {"vllm": "0.32.0", "toolkit": __version__},
        "paths": {"vllm": str(SITE / "vllm"), "toolkit": "/src/toolkit"},
        "runtime": runtime(),
    }
    return WorkerReport(rank, world_size, 1, **{**values, **changes})


def faults(reports, engine="v100", folders=(SITE,)):
    with pytest.raises(CheckFailedError) as caught:
        check_environment(reports, folders, engine, WHERE)
    return str(caught.value)


def test_our_platform_and_the_planned_folders_pass():
    check_environment([report(0, 2), report(1, 2)], [SITE], "v100", WHERE)
    check_environment([report(runtime=None)], [SITE], "cpu", WHERE)
    check_environment([], [SITE], "cpu", WHERE)  # another engine than ours reports nothing


def test_a_worker_that_says_nothing_is_no_v100():
    assert "rank 0: left no report" in faults([])
    assert "rank 1: left no report" in faults([report(0, 2)])


@pytest.mark.parametrize("other", [None, runtime(platform="vllm.platforms.cuda.NvmlCudaPlatform")])
def test_another_platform_is_named(other):
    assert "runs on the platform" in faults([report(runtime=other)])


def test_upstreams_library_is_named():
    library = str(SITE / "vllm/_C_stable_libtorch.abi3.so")
    assert f"has loaded {library}" in faults([report(runtime=runtime(native_libraries=(library,)))])


@pytest.mark.parametrize("engine", ["cpu", "v100"])
def test_a_package_from_elsewhere_is_named(engine):
    text = faults([report(paths={"torch": "/home/me/torch"})], engine)
    assert "imported torch from /home/me/torch" in text
    check_environment([report(paths={"torch": "/home/me/torch"})], [], engine, WHERE)  # nothing known to compare with


def test_another_toolkit_is_named():
    assert "runs volta-toolkit 0.0.1" in faults([report(versions={"toolkit": "0.0.1"})])


def test_folders_that_the_plan_adds_are_planned():
    assert planned_folders([SITE], {"PYTHONPATH": "/a:/b:"}) == (SITE, Path("/a"), Path("/b"))
    assert planned_folders([SITE], {}) == (SITE,)


def test_a_report_survives_its_file():
    from toolkit.planning.worker_report import report_from

    whole = report(runtime=runtime(recurrent=(("model.layers.0.linear_attn", "Gdn"),)))
    assert report_from(whole.to_data()) == whole
    import json

    assert report_from(json.loads(json.dumps(whole.to_data()))) == whole
