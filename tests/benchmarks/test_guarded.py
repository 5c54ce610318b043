"""A benchmark that is killed leaves no engine running."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from toolkit.linux import proc

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
ENGINE = """
import os, sys, time
from pathlib import Path
child = os.fork()
if child == 0:
    os.setsid()  # as vLLM's EngineCore: no signal to the parent's group reaches it
Path(sys.argv[0]).with_name(f"pid-{os.getpid()}").touch()
time.sleep(600)
"""
"""Stands for an engine: two processes that never answer."""
SERVE_OVERHEAD = """
import json, sys, serve_overhead
plan = {"argv": [sys.executable, sys.argv[1]], "inherit": [], "env": {}, "server": {"host": "127.0.0.1", "port": 1}}
serve_overhead.toolkit = lambda *_: json.dumps(plan)
serve_overhead.bare_start("+recipe=x")
"""
KV_SCALES = """
import sys, types, kv_scales
from pathlib import Path
kv_scales.HERE = Path(sys.argv[1]).parent
base = types.SimpleNamespace(root=kv_scales.HERE)
kv_scales.Place(kv_scales.HERE, base, "x").run([kv_scales.Arm("plain", "auto", None)])
"""


@pytest.mark.parametrize("program", [SERVE_OVERHEAD, KV_SCALES], ids=["serve_overhead", "kv_scales"])
def test_a_killed_benchmark_leaves_no_engine(tmp_path: Path, program: str) -> None:
    engine = tmp_path / "kv_scales_arm.py"
    engine.write_text(ENGINE)
    environment = {**os.environ, "PYTHONPATH": str(BENCHMARKS), "TMPDIR": str(tmp_path)}
    benchmark = subprocess.Popen([sys.executable, "-c", program, str(engine)], env=environment)
    pids: set[int] = set()
    while len(pids) < 2:
        assert benchmark.poll() is None
        pids = {int(path.name.partition("-")[2]) for path in tmp_path.glob("pid-*")}
        time.sleep(0.05)
    try:
        benchmark.kill()
        benchmark.wait(30)
        deadline = time.monotonic() + 10
        while left := {pid for pid in pids if (found := proc.read(pid)) and not found.dead}:
            assert time.monotonic() < deadline, left
            time.sleep(0.05)
    finally:
        for pid in pids:
            subprocess.run(["kill", "-KILL", str(pid)], stderr=subprocess.DEVNULL, check=False)
