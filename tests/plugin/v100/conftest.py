"""Runs a script in .venv-v100, on GPUs that a stub of NVML makes up. None of it needs a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
PYTHON = ROOT / ".venv-v100/bin/python"
SCRIPTS = Path(__file__).with_name("scripts")
STUB = ROOT / "tests/plugin/platform/stub/nvml.c"
Run = Callable[..., subprocess.CompletedProcess[str]]

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16", "hidden_size": 512,
    "intermediate_size": 1024, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2,
    "head_dim": 64, "vocab_size": 1024, "max_position_embeddings": 8192,
}  # fmt: skip
MOE = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "dtype": "float32", "hidden_size": 512,
    "intermediate_size": 1024, "moe_intermediate_size": 256, "num_experts": 8, "num_experts_per_tok": 2,
    "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 1024,
    "max_position_embeddings": 8192,
}  # fmt: skip
MODELS = {"llama": LLAMA, "qwen3_moe": MOE}


@pytest.fixture(scope="session")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the stub of NVML."""
    folder = tmp_path_factory.mktemp("nvml")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", STUB], check=True)
    return folder


@pytest.fixture(scope="session")
def run(stub: Path, library: Path) -> Run:
    """Run a script in .venv-v100; settings are environment variables."""
    if not PYTHON.exists():
        pytest.skip("no .venv-v100 here: ./quickstart setup engine=v100")
    assert library.is_file()
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
    fixed = {"LD_LIBRARY_PATH": str(stub), "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}

    def start(script: str, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        command = [str(PYTHON), "-P", str(SCRIPTS / f"{script}.py"), *arguments]
        return subprocess.run(
            command, env={**kept, **fixed, **settings}, capture_output=True, text=True, timeout=240, check=False
        )

    return start


@pytest.fixture(scope="session")
def report(run: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What scripts/active.py found on one V100."""
    folder = tmp_path_factory.mktemp("models")
    for name, config in MODELS.items():
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps(config))
    file = folder / "report.json"
    settings = {"VOLTA_TEST_GPUS": "7.0", "VOLTA_PLATFORM": "v100"}
    settings["PYTHONPATH"] = str(older_metadata(folder / "older"))
    settings |= {"XDG_CACHE_HOME": str(folder / "cache"), "TORCHINDUCTOR_CACHE_DIR": "/where/the/user/wants/it"}
    answer = run("active", str(file), *(str(folder / name) for name in MODELS), **settings)
    assert answer.returncode == 0, answer.stderr[-3000:]
    return json.loads(file.read_text())


def older_metadata(folder: Path) -> Path:
    """A folder that says of the toolkit that it is 0.0.9, as an older copy does beside a newer checkout."""
    info = folder / "volta_toolkit-0.0.9.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: volta-toolkit\nVersion: 0.0.9\n")
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    points = {group: [f"{name} = {at}" for name, at in each.items()] for group, each in groups.items()}
    (info / "entry_points.txt").write_text("".join("\n".join([f"[{group}]", *points[group], ""]) for group in points))
    return folder


def last_json(answer: subprocess.CompletedProcess[str]) -> Any:
    """The JSON document that a script ends its output with."""
    assert answer.returncode == 0, answer.stderr[-3000:]
    return json.loads(answer.stdout.splitlines()[-1])
