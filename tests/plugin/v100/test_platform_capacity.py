"""Whole models under the active platform, hybrids included: its decisions, and the capacity that the plan foretells.

The layers' caches, groups, blocks and tokens are the answers of vLLM's own functions for its own model classes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "config"))
from composing import compose

from tests.gpu.serving.families import DRAFTS
from tests.gpu.serving.models import configuration
from toolkit.planning.capacity import plan_capacity
from toolkit.planning.capacity.layers import layer_caches, plan_layers
from toolkit.planning.geometry import read_geometry
from toolkit.planning.geometry.model import ModelGeometry
from toolkit.planning.kv_memory import kv_cache_memory_bytes

from .conftest import Run

ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "qwen3_next": "Qwen3NextForCausalLM",
    "qwen3_5_text": "Qwen3_5ForCausalLM",
    "qwen3_5": "Qwen3_5ForConditionalGeneration",
}
HYBRIDS = ("qwen3_next", "qwen3_5_text", "qwen3_5")
SPECULATIVE = {"mtp3": "mtp", "ngram": "ngram", "draft": "draft_model"}
CASES = [
    *((family, "float16", "none", True) for family in ARCHITECTURES),
    *((family, "fp8_e4m3", "none", True) for family in HYBRIDS),
    *((family, "fp8_e5m2", "mtp3", True) for family in ("qwen3_next", "qwen3_5")),
    *((family, "float16", "mtp3", True) for family in ("qwen3_next", "qwen3_5")),
    ("qwen3_5_text", "fp8_e4m3", "none", False),
    ("qwen3_next", "float16", "ngram", True),
    ("llama", "float16", "draft", True),
    ("llama", "fp8_e4m3", "draft", True),
]
"""Family, KV cache, drafting, prefix caching."""
MEMORY = 2 << 30
LIMITS = {"max_model_len": 4096, "max_num_seqs": 64, "max_num_batched_tokens": 2048}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of config.json for each family, and for the draft model."""
    folder = tmp_path_factory.mktemp("models")
    for family, architecture in ARCHITECTURES.items():
        save(folder / family, {**configuration(family).to_dict(), "architectures": [architecture]})
    for name, (family, layers) in DRAFTS.items():
        target = json.loads((folder / family / "config.json").read_text())
        save(folder / name, {**target, "num_hidden_layers": layers})
    return folder


def save(folder: Path, config: dict[str, Any]) -> None:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config, default=lambda dtype: str(dtype).removeprefix("torch.")))


@pytest.fixture(scope="module")
def answers(run: Run, models: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("capacity")
    (folder / "cases.json").write_text(json.dumps([engine_case(models, *case) for case in CASES]))
    settings = {"VOLTA_TEST_GPUS": "7.0", "VOLTA_PLATFORM": "v100"}
    done = run("capacity", str(folder / "cases.json"), str(folder / "answers.json"), **settings)
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[dict[str, Any]] = json.loads((folder / "answers.json").read_text())
    return found


def engine_case(models: Path, family: str, kv: str, drafting: str, caching: bool) -> dict[str, Any]:
    speculative = None
    if drafting != "none":
        speculative = {"method": SPECULATIVE[drafting], "num_speculative_tokens": 3}
    if drafting == "draft":
        speculative = {**(speculative or {}), "model": str(models / "llama_draft")}
    images = {"limit_mm_per_prompt": {"image": 0, "video": 0}} if family == "qwen3_5" else {}
    return {
        "model": str(models / family),
        "kv": "auto" if kv == "float16" else kv,
        "speculative": speculative,
        "memory": MEMORY,
        "arguments": {**LIMITS, "enable_prefix_caching": caching, **images},
    }


def test_the_platform_takes_a_v100s_routes_for_each_model(answers: list[dict[str, Any]]) -> None:
    for (family, _, drafting, caching), found in zip(CASES, answers, strict=True):
        hybrid = family in HYBRIDS
        recurrent = ["vllm.v1.attention.backends.gdn_attn.GDNAttentionBackend"] if hybrid else []
        assert found["backends"] == ["toolkit.plugin.attention.triton.VoltaTritonBackend", *recurrent], family
        assert found["recurrent"] == (["triton"] if hybrid else []), family
        assert (found["dtype"], found["runner"]) == ("torch.float16", 2), family
        assert (found["mode"], found["graphs"]) == ("VLLM_COMPILE", "FULL_AND_PIECEWISE"), family
        assert found["ahead"] == (drafting != "ngram"), family
        assert not hybrid or found["states"] == ("align" if caching else "none"), family


def geometry_of(folder: Path) -> ModelGeometry:
    return read_geometry(json.loads((folder / "config.json").read_text()))


def test_the_plan_foretells_each_layers_cache_and_the_capacity(answers: list[dict[str, Any]], models: Path) -> None:
    for (family, kv, drafting, caching), found in zip(CASES, answers, strict=True):
        words = [f"kv={kv}", f"speculative={drafting}", f"limits.prefix_caching={str(caching).lower()}"]
        words += [f"limits.{name}={value}" for name, value in LIMITS.items()]
        config = compose("engine=v100", *words, f"limits.kv_cache_memory_bytes={MEMORY}").config
        geometry = geometry_of(models / family)
        own = geometry_of(models / "llama_draft") if drafting == "draft" else None
        caches = layer_caches(config, plan_layers(config, geometry), own)
        pages = sorted([cache.block_tokens, cache.page_bytes] for cache in caches.values())
        assert pages == found["layers"], (family, kv, drafting)
        capacity = plan_capacity(config, geometry, kv_cache_memory_bytes(config), own)
        planned = (capacity.blocks, capacity.tokens, capacity.concurrency)
        assert planned == (found["blocks"], found["tokens"], found["concurrency"]), (family, kv, drafting)
