"""Under torch 2.10.0 and without vLLM's libraries: every module of the serving paths, and every name that we touch."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from test_upstream_contract import FIELDS, PLATFORM_SIGNATURES, SIGNATURES

from .conftest import Run

PACKAGES = [
    "vllm.v1", "vllm.compilation", "vllm.model_executor.layers", "vllm.distributed.device_communicators",
    "vllm.engine", "vllm.entrypoints.openai",
]  # fmt: skip
MODELS = ["llama", "qwen2", "qwen3", "qwen3_moe", "qwen3_next", "qwen3_next_mtp", "qwen3_5", "qwen3_5_mtp", "qwen3_vl"]
# Packages that requirements/v100.txt leaves out or never had, each for parts of vLLM that SM70 does not serve with.
ABSENT = {
    "aiter": "AMD", "flydsl": "AMD", "mori": "AMD", "cutlass": "CuTe DSL, newer GPUs", "flashinfer": "newer GPUs",
    "deep_ep": "expert parallelism over RDMA", "nixl_ep": "expert parallelism over RDMA", "ray": "many machines",
    "kvcr": "tiered KV offloading",
}  # fmt: skip
# Modules that fail by themselves, and why nothing on SM70 needs them.
BY_THEMSELVES = {
    "vllm.v1.attention.backends.mla.cutlass_mla": "asks the GPU at import; MLA of newer GPUs",
    "vllm.model_executor.layers.fused_moe.router.rocm_fp32_router_gemm": "asks the GPU at import; AMD",
    "vllm.v1.executor.ray_executor_v2": "names Ray's types without Ray",
    "vllm.compilation.passes.fusion.rocm_aiter_fusion": "names operators of AMD's",
}


@pytest.fixture(scope="module")
def found(run: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("modules")
    wanted = {
        "packages": PACKAGES,
        "modules": [f"vllm.model_executor.models.{name}" for name in MODELS],
        "signatures": list(SIGNATURES | PLATFORM_SIGNATURES),
        "fields": list(FIELDS),
    }
    (folder / "wanted.json").write_text(json.dumps(wanted))
    settings = {"VOLTA_TEST_GPUS": "7.0", "VOLTA_PLATFORM": "v100"}
    answer = run("modules", str(folder / "wanted.json"), str(folder / "found.json"), **settings)
    assert answer.returncode == 0, answer.stderr[-3000:]
    return json.loads((folder / "found.json").read_text())


def test_every_module_imports_or_lacks_what_sm70_does_without(found: dict[str, Any]) -> None:
    assert len(found["imports"]) > 700
    failed = {name: error for name, error in found["imports"].items() if error and name not in BY_THEMSELVES}
    lacking = {name: re.match(r"ModuleNotFoundError: No module named '(\w+)", error) for name, error in failed.items()}
    assert {n: failed[n] for n, match in lacking.items() if match is None or match[1] not in ABSENT} == {}


def test_the_lists_of_what_fails_hold_nothing_that_works(found: dict[str, Any]) -> None:
    assert [name for name in BY_THEMSELVES if not found["imports"][name]] == []
    told = " ".join(found["imports"].values())
    assert [name for name in ABSENT if f"No module named '{name}" not in told] == []


def test_the_models_that_serve_import(found: dict[str, Any]) -> None:
    assert {name: found["imports"][f"vllm.model_executor.models.{name}"] for name in MODELS} == dict.fromkeys(
        MODELS, ""
    )


def test_no_compiled_module_of_vllm_is_loaded_by_any_of_it(found: dict[str, Any]) -> None:
    assert found["loaded"] == []


def test_each_signature_is_what_we_rely_on(found: dict[str, Any]) -> None:
    expected = SIGNATURES | PLATFORM_SIGNATURES
    assert dict(zip(expected, found["signatures"], strict=True)) == expected


def test_each_field_is_there(found: dict[str, Any]) -> None:
    assert [
        place for (place, needed), got in zip(FIELDS.items(), found["fields"], strict=True) if needed - {*got}
    ] == []
