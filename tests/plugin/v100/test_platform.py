"""The platform under torch 2.10.0: when it is active, what it answers, and what it keeps away."""

from __future__ import annotations

import _ctypes
import json
from pathlib import Path
from typing import Any

import pytest

from toolkit import __version__
from toolkit.config.schema.engine import EngineName
from toolkit.config.schema.limits import LimitsConfig
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.planning.capacity.caches import FullCache
from toolkit.planning.capacity.engines import TRAITS
from toolkit.planning.graphs import capture_sizes
from toolkit.plugin.platform.caches import cache_folder

from .conftest import LLAMA, MODELS, Run, last_json

ACTIVE, REFUSED = "toolkit.plugin.platform.v100.V100Platform", "toolkit.plugin.platform.refused.RefusedPlatform"
V100 = {"VOLTA_PLATFORM": "v100"}
STEP = {"max_num_seqs": 48, "max_num_batched_tokens": 2048}
MIXED = {"VOLTA_TEST_GPUS": "7.0,9.0"}
# settings → outcome, what the sentence holds, capabilities that are seen
CASES: list[tuple[dict[str, str], str, str, list[list[int]]]] = [
    ({"VOLTA_TEST_GPUS": "7.0,7.0"}, "active", "2 visible: 7.0, 7.0", [[7, 0], [7, 0]]),
    ({"VOLTA_TEST_GPUS": "9.0"}, "inactive", "the visible GPUs are 9.0", [[9, 0]]),
    ({}, "inactive", "the visible GPUs are none", []),
    (MIXED, "inactive", "the visible GPUs are 7.0, 9.0", [[7, 0], [9, 0]]),
    ({**MIXED, "CUDA_VISIBLE_DEVICES": "0"}, "active", "1 visible: 7.0", [[7, 0]]),
    ({**MIXED, "CUDA_VISIBLE_DEVICES": "1,0"}, "inactive", "9.0, 7.0", [[9, 0], [7, 0]]),
    ({**MIXED, "CUDA_VISIBLE_DEVICES": "GPU-1"}, "inactive", "the visible GPUs are 9.0", [[9, 0]]),
    ({**MIXED, "CUDA_VISIBLE_DEVICES": " GPU-0 "}, "active", "1 visible: 7.0", [[7, 0]]),
    ({**MIXED, "CUDA_VISIBLE_DEVICES": ""}, "inactive", "the visible GPUs are none", []),
    ({**MIXED, "CUDA_VISIBLE_DEVICES": "0,7,1"}, "active", "1 visible: 7.0", [[7, 0]]),
    ({**MIXED, "CUDA_VISIBLE_DEVICES": "0,0"}, "inactive", "the visible GPUs are none", []),
    ({**MIXED, "CUDA_VISIBLE_DEVICES": "4294967296"}, "inactive", "the visible GPUs are none", []),
    ({**MIXED, "CUDA_VISIBLE_DEVICES": "\u0660"}, "inactive", "the visible GPUs are none", []),
    ({**MIXED, "CUDA_VISIBLE_DEVICES": "x"}, "inactive", "the visible GPUs are none", []),
    ({**V100, "VOLTA_TEST_GPUS": "7.0"}, "active", "1 visible: 7.0", [[7, 0]]),
    (V100, "refused", "no NVIDIA GPU is visible", []),
    ({**V100, **MIXED}, "refused", "the visible GPUs differ (7.0, 9.0)", [[7, 0], [9, 0]]),
    ({**V100, "VOLTA_TEST_GPUS": "9.0"}, "refused", "engine.prove_on_any_gpu=true", [[9, 0]]),
    ({"VOLTA_PLATFORM": "v100_on_any_gpu", "VOLTA_TEST_GPUS": "9.0"}, "active", "1 visible: 9.0", [[9, 0]]),
    ({"VOLTA_PLATFORM": "V100", "VOLTA_TEST_GPUS": "7.0"}, "refused", "VOLTA_PLATFORM='V100' is none of", [[7, 0]]),
]


def test_each_decision_and_each_sentence_in_a_real_process(run: Run) -> None:
    answers = last_json(run("decisions", json.dumps([settings for settings, *_ in CASES])))
    classes = {"active": ACTIVE, "refused": REFUSED, "inactive": None}
    for (settings, outcome, words, seen), (got, reason, name, capabilities) in zip(CASES, answers, strict=True):
        assert (got, name, capabilities) == (outcome, classes[outcome], seen), (settings, reason)
        assert words in reason, settings


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, "no NVIDIA GPU is visible: look at nvidia-smi and at CUDA_VISIBLE_DEVICES"),
        (MIXED, "the visible GPUs differ (7.0, 9.0)"),
    ],
    ids=["no GPU", "mixed"],
)
def test_a_refusal_ends_the_process_with_its_sentence(run: Run, settings: dict[str, str], sentence: str) -> None:
    answer = run("refused", **V100, **settings)
    assert answer.returncode == 1
    assert answer.stderr.splitlines()[-1].startswith(f"RuntimeError: engine=v100 cannot start: {sentence}")
    assert answer.stdout == ""


def test_a_missing_library_ends_the_process_with_the_way_to_build_it(run: Run, tmp_path: Path) -> None:
    answer = run("refused", str(tmp_path), VOLTA_TEST_GPUS="7.0")
    assert answer.returncode == 1
    assert answer.stderr.splitlines()[-1] == (
        "RuntimeError: engine=v100 cannot start: the native library is not built: "
        "invoke build, or install a wheel that it made"
    )


@pytest.mark.parametrize("foreign", [False, True], ids=["damaged", "another library"])
def test_a_library_that_is_not_ours_ends_the_process_with_one_sentence(
    run: Run, tmp_path: Path, *, foreign: bool
) -> None:
    library = tmp_path / "toolkit/native/volta_native.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(Path(_ctypes.__file__).read_bytes() if foreign else b"\x7fELF" + bytes(100))
    answer = run("refused", str(tmp_path), VOLTA_TEST_GPUS="7.0")
    assert answer.returncode == 1
    last = answer.stderr.splitlines()[-1]
    assert last.startswith(
        f"RuntimeError: engine=v100 cannot start: the native library {library} is not this toolkit's ("
    )
    assert last.endswith("): invoke build")


@pytest.mark.parametrize(
    ("how", "names"),
    [
        ("without", ("rms_norm", "silu_and_mul")),
        ("without", ("kv_cache_write",)),  # which no name of upstream's stands for
        ("other", ("moe_sum",)),
    ],
)
def test_a_library_of_another_version_is_told_with_the_operators_that_differ(
    run: Run, how: str, names: tuple[str, ...]
) -> None:
    answer = run("stale", how, *names, VOLTA_TEST_GPUS="7.0")
    assert answer.returncode == 1
    last = answer.stderr.splitlines()[-1]
    assert last.startswith("RuntimeError: engine=v100 cannot start: the native library ")
    said = {"without": "without", "other": "with another"}[how]
    assert last.endswith(f" is of another version, {said} {', '.join(names)}: invoke build")


def test_two_platforms_that_are_active_are_an_error_of_vllm(run: Run, tmp_path: Path) -> None:
    info = tmp_path / "other-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[vllm.platform_plugins]\nother = other:platform\n")
    (tmp_path / "other.py").write_text("def platform():\n    return 'other.Other'\n")
    answer = run("refused", VOLTA_TEST_GPUS="7.0", PYTHONPATH=str(tmp_path))
    assert answer.returncode == 1
    last = answer.stderr.splitlines()[-1]
    assert last.startswith("RuntimeError: Only one platform plugin can be activated")
    assert "volta" in last
    assert "other" in last


def test_it_is_a_v100(report: dict[str, Any]) -> None:
    assert report["platform"] == ACTIVE
    assert report["capability"] == [7, 0]


def test_it_says_no_to_what_upstreams_libraries_or_newer_gpus_do(report: dict[str, Any]) -> None:
    assert report["probes"] == {
        "custom all-reduce": False,
        "dependent launch": False,
        "an image's attention": "TORCH_SDPA",
    }


def test_compiled_code_is_kept_by_versions_and_where_the_user_says_so(report: dict[str, Any]) -> None:
    caches = dict(report["caches"])
    assert caches.pop("TORCHINDUCTOR_CACHE_DIR") == "/where/the/user/wants/it"
    assert caches.pop("TRITON_CACHE_AUTOTUNING") == "1"
    assert {Path(path).name for path in caches.values()} == {"vllm", "triton"}
    (folder,) = {Path(path).parent for path in caches.values()}
    root = folder.parents[1]
    assert root.parts[-2:] == ("cache", "volta-toolkit")
    assert folder == cache_folder(root, report["versions"])


def test_the_versions_are_of_what_runs_and_not_of_an_older_copys_metadata(report: dict[str, Any]) -> None:
    versions = report["versions"]
    assert versions["volta-toolkit"] == __version__
    assert versions["vllm"] == "0.32.0"
    assert versions["torch"].startswith("2.10.0")
    assert versions["triton"] == "3.6.0"


@pytest.mark.parametrize("kv", ["auto", "fp8_e4m3", "fp8_e5m2"])
@pytest.mark.parametrize("model", MODELS)
def test_what_vllm_makes_of_a_model(report: dict[str, Any], model: str, kv: str) -> None:
    found, config = report["configurations"][f"{model} {kv}"], MODELS[model]
    assert found["dtype"] == "torch.float16"  # cast from bfloat16 and from float32
    assert found["backend"] == "toolkit.plugin.attention.triton.VoltaTritonBackend"
    assert (found["mode"], found["graphs"], found["kv"]) == ("VLLM_COMPILE", "FULL_AND_PIECEWISE", kv)
    assert tuple(found["sizes"]) == capture_sizes(DeploymentConfig(limits=LimitsConfig(**STEP)))
    assert found["sizes"][-1] >= 48  # every decode batch of max_num_seqs=48 replays a graph
    heads, size, traits = config["num_key_value_heads"], config["head_dim"], TRAITS[EngineName.v100]
    planned = FullCache(traits.default_block, heads, size, size, {"auto": "float16"}.get(kv, kv))
    assert found["spec"] == {
        "impl": "VoltaTritonImpl",
        "block": planned.block_tokens,
        "page": planned.page_bytes,
        "heads": heads,
        "size": size,
    }
    assert found["ahead"] == traits.schedules_ahead


def test_the_models_are_not_what_they_are_served_as() -> None:
    assert {config["dtype"] for config in MODELS.values()} == {"bfloat16", "float32"}
    assert LLAMA["head_dim"] == 64


EMPTY = {"vllm._C_stable_libtorch", "vllm._moe_C_stable_libtorch", "vllm.vllm_flash_attn._vllm_fa2_C"}
# Loaded by path, past the gate, by a package that nothing on SM70 imports; it needs CUDA 13 and fails by itself.
BY_PATH = {"vllm.third_party.deep_gemm._C_extension"}


def test_none_of_vllms_libraries_can_be_imported(report: dict[str, Any]) -> None:
    gate = report["gate"]
    assert gate.keys() >= EMPTY | BY_PATH
    assert {name for name, answer in gate.items() if answer == "empty"} == EMPTY
    for name in gate.keys() - EMPTY - BY_PATH:
        assert gate[name] == f"ImportError: {name} is kept out by the volta platform"
    assert gate["vllm.third_party.deep_gemm._C_extension"].startswith("OSError: Could not load this library")


def test_none_of_them_is_in_the_process_that_has_imported_the_model_runner(report: dict[str, Any]) -> None:
    assert report["mapped"] == []
