"""The entry point: what it registers on which CPU, how often it may be called, and what it imports."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

vllm = pytest.importorskip("vllm")
torch = pytest.importorskip("torch")

from vllm.platforms import current_platform  # noqa: E402
from vllm.v1.attention.backends.registry import AttentionBackendEnum  # noqa: E402

from toolkit.planning.attention_routes import upstream_reads_fp8  # noqa: E402
from toolkit.plugin.register import CPU_FP8_BACKEND, CPU_ROUNDED_BACKEND, register  # noqa: E402

UPSTREAM_BACKEND = "vllm.v1.attention.backends.cpu_attn.CPUAttentionBackend"
CPU_ATTN = AttentionBackendEnum.CPU_ATTN

if not current_platform.is_cpu():
    pytest.skip("the CPU engine is not installed", allow_module_level=True)


@pytest.fixture(autouse=True)
def _registry():
    CPU_ATTN.clear_override()
    yield
    CPU_ATTN.clear_override()


def on_cpu(monkeypatch, *, avx512, amx=False):
    monkeypatch.setattr(torch.cpu, "_is_avx512_supported", lambda: avx512)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)


def test_takes_over_where_upstream_has_no_fp8(monkeypatch):
    on_cpu(monkeypatch, avx512=False)
    register()
    register()
    assert CPU_ATTN.get_path() == CPU_FP8_BACKEND
    assert CPU_ATTN.get_class().__name__ == "CpuFp8AttentionBackend"


@pytest.mark.parametrize(("avx512", "amx"), [(True, False), (False, True), (True, True)])
def test_rounds_what_upstream_stores_on_a_capable_cpu(monkeypatch, avx512, amx):
    on_cpu(monkeypatch, avx512=avx512, amx=amx)
    register()
    register()
    assert CPU_ATTN.get_path() == CPU_ROUNDED_BACKEND
    assert CPU_ATTN.get_class().__name__ == "CpuRoundedAttentionBackend"


@pytest.mark.parametrize("version", ["0.31.2", "0.33.0", "0.3.2", "dev"])
def test_refuses_another_vllm(monkeypatch, caplog, version):
    on_cpu(monkeypatch, avx512=False)
    monkeypatch.setattr(vllm, "__version__", version)
    monkeypatch.setattr(logging.getLogger("vllm"), "propagate", True)
    caplog.set_level(logging.WARNING, logger="vllm")  # other tests in this process may have silenced it
    register()
    assert CPU_ATTN.get_path() == UPSTREAM_BACKEND
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("ERROR", f"The volta plugin takes nothing over: it is made for vLLM 0.32.x, and this is vLLM {version}.")
    ]


def test_leaves_another_plugins_override_alone(monkeypatch, caplog):
    from vllm.v1.attention.backends.registry import register_backend

    on_cpu(monkeypatch, avx512=False)
    monkeypatch.setattr(logging.getLogger("vllm"), "propagate", True)
    caplog.set_level(logging.WARNING, logger="vllm")  # other tests in this process may have silenced it
    register_backend(CPU_ATTN, "their.module.Backend")
    register()
    assert CPU_ATTN.get_path() == "their.module.Backend"
    assert "The volta plugin leaves CPU_ATTN alone: their.module.Backend has overridden it." in caplog.messages


def test_leaves_other_platforms_alone(monkeypatch):
    on_cpu(monkeypatch, avx512=False)
    monkeypatch.setattr(type(current_platform), "is_cpu", lambda _: False)
    register()
    assert CPU_ATTN.get_path() == UPSTREAM_BACKEND


def test_flags_and_probes_agree_on_this_machine():
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith(("flags", "Features"))]
    flags = frozenset(lines[0].partition(":")[2].split()) if lines else frozenset()
    assert upstream_reads_fp8(flags) == (torch.cpu._is_avx512_supported() or torch.cpu._is_amx_tile_supported())


def test_brings_no_module_of_ours_but_the_plugin():
    """In a process that already has vLLM and its platform, the entry point imports the plugin and nothing else."""
    code = """
import json, sys
import torch, vllm, vllm.platforms, vllm.v1.attention.backends.registry
vllm.platforms.current_platform
before = set(sys.modules)
from toolkit.plugin.register import register
register()
print(json.dumps(sorted(set(sys.modules) - before)))
"""
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    brought = json.loads(output.splitlines()[-1])
    assert "toolkit.plugin.register" in brought
    assert [name for name in brought if not name.startswith("toolkit.plugin")] in ([], ["toolkit"])


def test_the_platform_entry_brings_no_library_where_there_is_no_gpu():
    """vLLM asks it in every process, also for the CPU engine."""
    code = """
import json, sys
import torch, vllm, vllm.utils.import_utils
before = set(sys.modules)
from toolkit.plugin.platform.entry import platform_class
assert platform_class() is None
print(json.dumps(sorted(name for name in set(sys.modules) - before if not name.startswith(("vllm", "pynvml")))))
"""
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=hidden)
    brought = [name for name in json.loads(done.stdout.splitlines()[-1]) if not name.startswith("toolkit.plugin")]
    shared = [
        "toolkit.machine",
        "toolkit.machine.visible_devices",
        "toolkit.planning",
        "toolkit.planning.platform_demand",
    ]
    assert brought == ["toolkit", *shared]


def test_vllm_finds_the_entry_point():
    found = [point for point in entry_points(group="vllm.general_plugins") if point.name == "volta"]
    if not found:
        pytest.skip("the distribution is not installed here, so vLLM cannot find the plugin")
    assert found[0].load() is register


@pytest.mark.parametrize("path", [CPU_FP8_BACKEND, CPU_ROUNDED_BACKEND])
def test_the_backend_brings_no_other_package(path):
    """A worker with an FP8 cache imports the plugin, the routes that it shares with planning, and no library."""
    code = f"""
import json, sys
import vllm.v1.attention.backends.cpu_attn
before = set(sys.modules)
import {path.rpartition(".")[0]}
print(json.dumps(sorted(set(sys.modules) - before)))
"""
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    others = [name for name in json.loads(output.splitlines()[-1]) if not name.startswith("toolkit.plugin")]
    assert "toolkit.planning.attention_routes" in others
    assert set(others) <= {"toolkit", "toolkit.planning", "toolkit.planning.attention_routes"}
