"""benchmarks/gpu_memory.py where there is no GPU, and what it keeps of a stage that fails half-way."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "gpu_memory.py"


@pytest.fixture
def program():
    spec = importlib.util.spec_from_file_location("gpu_memory", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(code):
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_without_a_gpu_it_says_so(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    done = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.startswith("error: torch sees no NVIDIA GPU here") or "No module named 'torch'" in done.stderr


def test_what_a_stage_measured_before_it_failed_stays(program):
    step = """print('{"step": "context", "outside": 5, "torch": 2}', flush=True)"""
    good, bad = program.finish([run(step), run(f"{step}; raise OSError('NVML answers 3')")])
    assert good == {"steps": [{"step": "context", "outside": 5, "torch": 2}]}
    assert bad["steps"] == good["steps"]
    assert "NVML answers 3" in bad["fault"]


def test_a_stage_that_hangs_is_ended(program, monkeypatch):
    monkeypatch.setattr(program, "STAGE_S", 1)
    (found,) = program.finish([run("import time; time.sleep(60)")])
    assert found["steps"] == []
    assert "exit -9" in found["fault"]


def test_a_step_that_this_machine_cannot_do_is_named(program, capsys):
    def lacking():
        raise ImportError("no Triton")

    assert list(program._attempt("Triton", lacking, None)) == []
    assert capsys.readouterr().err == "left out: Triton: ImportError: no Triton\n"
