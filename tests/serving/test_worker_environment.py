"""Whether a run is refused when its workers are not what the plan says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolkit import __version__
from toolkit.config.schema.engine import EngineName
from toolkit.errors import CheckFailedError
from toolkit.planning.expected import PLATFORMS, ExpectedWorkers, ImportFolders
from toolkit.planning.platform_demand import VARIABLE, Demand
from toolkit.planning.worker_report import ImportRoot, Runtime, WorkerReport
from toolkit.serving.report_file import report_from
from toolkit.serving.worker_differences import differences
from toolkit.serving.worker_environment import V100_PLATFORM, environment_findings, refuse_workers
from toolkit.serving.worker_reports import read_reports

WHERE = Path("/run/workers")
SITE = Path("/env/lib/python3.11/site-packages")
FOLDERS = ImportFolders(("/usr/lib/python3.11",), (str(SITE),), (), "/src")


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


def hopper():
    return runtime(device="NVIDIA H200", capability="9.0")


def report(rank=0, world_size=1, **changes):
    values = {
        "engine": "v100",
        "versions": {"vllm": "0.32.0", "toolkit": __version__},
        "paths": {"vllm": str(SITE / "vllm"), "toolkit": "/src/toolkit"},
        "runtime": runtime(),
        "imports": (ImportRoot(str(SITE), ("vllm",), 1), ImportRoot("/src", ("toolkit",), 1)),
    }
    return WorkerReport(rank, world_size, 1, **{**values, **changes})


def compare(reports, engine="v100", folders=FOLDERS, environment=None):
    planned = ExpectedWorkers(
        engine, PLATFORMS[EngineName(engine)], folders, "/x/python is silent", versions={"toolkit": __version__}
    )
    found = (*environment_findings(reports, planned, environment or {}, WHERE), *differences(reports, planned))
    refuse_workers(found, WHERE)


def faults(reports, engine="v100", folders=FOLDERS):
    with pytest.raises(CheckFailedError) as caught:
        compare(reports, engine, folders)
    return str(caught.value)


def test_our_platform_and_the_planned_folders_pass():
    compare([report(0, 2), report(1, 2)])
    compare([report(runtime=runtime(platform="vllm.platforms.cpu.CpuPlatform"))], "cpu")


@pytest.mark.parametrize("engine", ["cpu", "v100"])
def test_a_worker_that_says_nothing_is_not_believed(engine):
    assert "rank 0: left no report" in faults([], engine)
    assert "rank 1: left no report" in faults([report(0, 2)], engine)


@pytest.mark.parametrize("other", [None, runtime(platform="vllm.platforms.cuda.NvmlCudaPlatform")])
def test_another_platform_is_named(other):
    assert "runs on the platform" in faults([report(runtime=other)])


def test_each_refusal_has_its_own_fix():
    stray = report(imports=(*report().imports, ImportRoot("/home/me/lib", ("regex",), 1)), runtime=hopper())
    with pytest.raises(CheckFailedError) as caught:
        compare([stray])
    assert caught.value.what.endswith(
        ": the plan does not name it; remove the .pth file or the code that puts it on the path (and 1 more fault)"
    )
    (other,) = caught.value.rejected
    assert other.reason.endswith(
        "; hide it with CUDA_VISIBLE_DEVICES, or set engine.prove_on_any_gpu=true for a functional proof"
    )
    assert caught.value.fix == ""


def test_upstreams_library_is_named():
    library = str(SITE / "vllm/_C_stable_libtorch.abi3.so")
    assert f"has loaded {library}" in faults([report(runtime=runtime(native_libraries=(library,)))])


@pytest.mark.parametrize("engine", ["cpu", "v100"])
def test_any_module_from_elsewhere_is_named(engine):
    stray = report(imports=(*report().imports, ImportRoot("/home/me/lib", ("regex",), 1)))
    assert "rank 0: imported regex from /home/me/lib, outside the planned environment" in faults([stray], engine)


@pytest.mark.parametrize("engine", ["cpu", "v100"])
def test_an_interpreter_that_does_not_answer_is_a_fault(engine):
    text = faults([report()], engine, folders=None)
    assert "imports: nothing is known to compare them with: /x/python is silent" in text


def test_another_toolkit_is_named():
    assert "runs toolkit 0.0.1" in faults([report(versions={"toolkit": "0.0.1"})])


def test_another_gpu_than_a_v100_is_named_unless_any_was_asked_for():
    assert "runs on NVIDIA H200, whose capability is 9.0, not 7.0" in faults([report(runtime=hopper())])
    compare([report(runtime=hopper())], environment={VARIABLE: Demand.any_gpu.value})


@pytest.mark.parametrize("engine", ["cpu", "v100"])
def test_reports_that_are_not_of_one_start_are_named(engine):
    assert "rank 0: left 2 reports" in faults([report(), report()], engine)
    assert "say that they are 2 and 3" in faults([report(0, 2), report(1, 3)], engine)


def test_a_report_survives_its_file():
    whole = report(runtime=runtime(recurrent=(("model.layers.0.linear_attn", "Gdn"),)))
    assert report_from(json.loads(json.dumps(whole.to_data()))) == whole


R = report(runtime=runtime()).to_data()
HOSTILE = [
    ({"rank": "0"}, "report.rank: it must be a whole number, not '0'"),
    ({"rank": -1}, "report.rank: there is no rank -1 of 1 workers"),
    ({"rank": 5}, "report.rank: there is no rank 5 of 1 workers"),
    ({"world_size": 0}, "there is no rank 0 of 0 workers"),
    ({"world_size": 10**12}, "there is no rank 0 of 1000000000000 workers"),
    ({"world_size": True}, "report.world_size: it must be a whole number"),
    ({"paths": []}, "report.paths: it must be an object"),
    ({"paths": {"torch": 1}}, "report.paths.torch: it must be text"),
    ({"paths": {"torch": "/a\0b"}}, "no path has a zero byte"),
    ({"versions": []}, "report.versions: it must be an object"),
    ({"runtime": "x"}, "report.runtime: it must be an object"),
    ({"runtime": {**R["runtime"], "native_libraries": [1]}}, r"report.runtime.native_libraries\[0\]: it must be text"),
    ({"runtime": {**R["runtime"], "recurrent": [["a", "b", "c"]]}}, "a list of 2 items"),
]


@pytest.mark.parametrize(("change", "says"), HOSTILE)
def test_a_file_that_is_no_report_is_an_error_with_its_place(change, says, tmp_path):
    (tmp_path / "rank0-pid1.json").write_text(json.dumps({**R, **change}))
    with pytest.raises(CheckFailedError, match=says) as caught:
        read_reports(tmp_path)
    assert str(tmp_path / "rank0-pid1.json") in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "[" * 100_000, '{"schema": 1, "rank"', "[]"], ids=["empty", "deep", "cut", "list"]
)
def test_a_file_that_is_no_json_is_an_error_with_its_place(text, tmp_path):
    (tmp_path / "rank0-pid1.json").write_text(text)
    with pytest.raises(CheckFailedError, match="report cannot be read"):
        read_reports(tmp_path)
