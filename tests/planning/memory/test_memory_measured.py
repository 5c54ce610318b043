"""What an H200 showed (docs/evidence/gpu_memory_h200.json), and what follows for a V100."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from memory_cases import DENSE, geometry, purposes, v100

from toolkit.planning.memory import plan_budget
from toolkit.planning.memory.graphs import FIRST_BYTES, LAYER_BYTES

RECORD = json.loads((Path(__file__).parents[3] / "docs" / "evidence" / "gpu_memory_h200.json").read_text())
MIB = 2**20
V100_SMS, THREADS, STACK = 80, 2048, 1024


def grown(stage: str) -> dict[str, int]:
    """Bytes outside torch's allocator after each step, by the step's first words."""
    steps: list[dict[str, Any]] = RECORD["stages"][stage]["steps"]
    return {step["step"].partition(" (")[0]: step["outside"] for step in steps}


def test_local_memory_is_sms_times_threads_times_bytes() -> None:
    """So a context scales from one GPU to another."""
    found = grown("libraries")
    more = found["stack of 1 KiB more a thread"] - found["eight kernels of Triton"]
    assert more == RECORD["sms"] * RECORD["threads_an_sm"] * 1024


def test_a_v100s_context_by_an_h200s() -> None:
    rest = grown("context")["context"] - RECORD["sms"] * RECORD["threads_an_sm"] * STACK
    scaled = rest + V100_SMS * THREADS * STACK
    term = purposes(plan_budget(v100(), geometry(DENSE)))["CUDA context"]
    assert round(scaled / MIB) == 423
    assert term.bytes < scaled < term.most


def test_kernels_of_torch_and_cublas_and_none_of_ours() -> None:
    found = grown("libraries")
    loaded = found["fp16 matmuls, cuBLAS"] - found["context"]
    term = purposes(plan_budget(v100(), geometry(DENSE)))["cuBLAS and kernels"]
    assert term.bytes < loaded < term.most
    assert found["one operator of volta_native.so"] == found["eight kernels of Triton"] == found["fp16 matmuls, cuBLAS"]


def test_graphs_are_their_nodes_and_what_the_first_bring() -> None:
    found = grown("graphs")
    few, some, many = (found[f"16 graphs of {nodes} kernels, captured"] for nodes in (50, 500, 2000))
    node = (many - some) / (16 * 2000)
    assert node == pytest.approx((some - few) / (16 * 500), rel=0.05)
    assert LAYER_BYTES / node == pytest.approx(82, abs=2)
    assert few - found["before graphs"] - 16 * 50 * node == pytest.approx(FIRST_BYTES, rel=0.01)
    assert found["16 graphs of 2000 kernels, replayed"] == many, "a replay takes nothing more"
