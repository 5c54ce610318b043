"""Every Triton kernel of the covered paths, compiled for sm_70: it fits a V100, and docs/triton-sm70.md is current."""

from __future__ import annotations

import json
import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from .conftest import ROOT, Run
from .sm70_elsewhere import ELSEWHERE
from .sm70_page import PAGE, REPLACED, page

SHARED = 98304
EXPECTED = {
    "kernel_unified_attention",
    "reduce_segments",
    "reshape_and_cache_kernel_flash",
    "fused_moe_kernel",
    "fused_recurrent_gated_delta_rule_packed_decode_kernel",
    "chunk_gated_delta_rule_fwd_kernel_h_blockdim64",
    "chunk_fwd_kernel_o",
    "_causal_conv1d_update_kernel",
    "_gumbel_sample_kernel",
    "_topk_topp_kernel",
    "_prepare_prefill_inputs_kernel",
}


@pytest.fixture(scope="module")
def compiled(run: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    file = tmp_path_factory.mktemp("kernels") / "kernels.json"
    cache = ROOT / "build/triton-sm70"  # Triton's own, keyed by source and options
    settings = {"VOLTA_TEST_GPUS": "7.0", "VOLTA_PLATFORM": "v100", "TRITON_CACHE_DIR": str(cache)}
    answer = run("compile_sm70", str(file), **settings)
    assert answer.returncode == 0, answer.stderr[-3000:]
    found: dict[str, Any] = json.loads(file.read_text())
    if os.environ.get("WRITE_DOCS"):
        Path(PAGE).write_text(page(found["rows"]), encoding="utf-8")
    return found


@pytest.fixture
def rows(compiled: dict[str, Any]) -> list[dict[str, Any]]:
    return list(compiled["rows"])


def test_only_what_is_replaced_does_not_compile(rows: list[dict[str, Any]]) -> None:
    failed = {row["case"]: row["error"] for row in rows if "error" in row}
    assert failed.keys() == REPLACED.keys(), failed
    assert all("fp8e4nv" in error for error in failed.values()), failed


def test_the_kernels_are_those_of_the_serving_paths(rows: list[dict[str, Any]]) -> None:
    assert {row["kernel"].rpartition(".")[2] for row in rows if "error" not in row} >= EXPECTED


def test_each_is_for_sm_70_fits_a_block_and_uses_no_newer_instruction(rows: list[dict[str, Any]]) -> None:
    made = [row for row in rows if "error" not in row]
    assert {row["target"] for row in made} == {70}
    assert [row for row in made if row["shared"] > SHARED] == []
    assert [row for row in made if row["foreign"]] == []


def test_the_page_is_current(rows: list[dict[str, Any]]) -> None:
    assert PAGE.read_text(encoding="utf-8") == page(rows), (
        "WRITE_DOCS=1 ./quickstart test tests/plugin/v100/test_triton.py"
    )


def test_each_kernel_of_a_loaded_module_is_compiled_or_told_why_it_is_not_launched(compiled: dict[str, Any]) -> None:
    made = {row["kernel"] for row in compiled["rows"] if "error" not in row}
    rest = [name for name in compiled["loaded"] if name not in made]
    assert len(compiled["loaded"]) > 150
    told = {name for name in [*rest, *made] if any(fnmatchcase(name, pattern) for pattern in ELSEWHERE)}
    assert told == set(rest)
    assert [pattern for pattern in ELSEWHERE if not any(fnmatchcase(name, pattern) for name in rest)] == []


def test_a_worker_reports_each_kernel_that_it_launches_though_the_heap_is_frozen(compiled: dict[str, Any]) -> None:
    assert compiled["unreported"] == []


def test_each_kernel_that_a_gpu_has_launched_is_compiled(compiled: dict[str, Any]) -> None:
    """What workers have reported of the proof on a GPU."""
    record = json.loads((ROOT / "docs/evidence/serving_h200.json").read_text(encoding="utf-8"))
    launched = {name for case in record["cases"] for name in case.get("triton_kernels", ())}
    assert len(launched) > 40
    made = {row["kernel"] for row in compiled["rows"] if "error" not in row}
    assert sorted(launched - made) == []
