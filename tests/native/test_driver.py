"""What the library makes of a driver and its GPU, which a libcuda.so.1 of ours makes up: code and words."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from toolkit.native import info  # noqa: E402

STUB = Path(__file__).with_name("driver") / "libcuda.c"
PREPARE = """
import sys
import torch
from toolkit.native import load
load()
for device in sys.argv[1:]:
    torch.ops.volta.prepare(int(device))
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory, built):
    """Makes the stub; each of `macros` changes it."""

    def made(*macros):
        folder = tmp_path_factory.mktemp("driver")
        defined = [f"-D{macro}" for macro in macros]
        subprocess.run(["cc", "-shared", "-fPIC", *defined, "-o", folder / "libcuda.so.1", STUB], check=True)
        return folder

    return made


@pytest.fixture
def prepare(driver, tmp_path):
    """Loads all code for devices in a new process: what it said, and (device, kind) of each module."""

    def run(*devices, macros=(), **stub):
        loaded = tmp_path / "loaded"
        named = {f"STUB_{name.upper()}": text for name, text in stub.items()}
        environment = os.environ | named | {"LD_LIBRARY_PATH": str(driver(*macros)), "STUB_LOADED": str(loaded)}
        command = [sys.executable, "-c", PREPARE, *map(str, devices)]
        answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        lines = loaded.read_text().splitlines() if loaded.exists() else []
        said = answer.stderr.strip().splitlines()[-1] if answer.returncode else ""
        return said.removeprefix("RuntimeError: "), Counter(tuple(line.split()) for line in lines)

    return run


@pytest.mark.parametrize(("capability", "kind"), [("7.0", "cubin"), ("7.2", "ptx"), ("7.5", "ptx"), ("9.0", "ptx")])
def test_a_v100_takes_the_cubins_and_a_newer_gpu_the_ptx(capability, kind, prepare):
    said, loaded = prepare(0, capability=capability)
    files = len({code.name for code in info().device_code})
    assert said == ""
    assert loaded == {("0", kind): files}


def test_each_device_has_its_modules_and_none_is_loaded_twice(prepare):
    said, loaded = prepare(0, 1, 0, capability="7.0")
    files = len({code.name for code in info().device_code})
    assert said == ""
    assert loaded == {("0", "cubin"): files, ("1", "cubin"): files}


@pytest.mark.parametrize("capability", ["6.1", "5.2"])
def test_an_older_gpu_is_named(capability, prepare):
    said, loaded = prepare(0, capability=capability)
    older = f"cuda:0 (compute capability {capability}) is older than 7.0, the oldest GPU that these kernels run on"
    assert (said, loaded) == (f"volta: {older}", Counter())


def test_a_driver_that_rejects_the_code_is_quoted(prepare):
    said, _ = prepare(0, capability="9.0", rejects="ptxas fatal : Unsupported .version 8.7")
    assert said == (
        "volta: loading activation on cuda:0 (compute capability 9.0) [ptxas fatal : Unsupported .version 8.7] failed: "
        "CUDA_ERROR_INVALID_PTX (a PTX JIT compilation failed)"
    )


def test_a_driver_that_lacks_a_function_is_too_old(prepare):
    said, _ = prepare(0, macros=["OLD"], capability="7.0")
    assert said == "volta: the NVIDIA driver is too old: libcuda.so.1 has no cuLaunchKernel"


@pytest.mark.parametrize("device", [-1, 64])
def test_a_device_that_cannot_be_is_refused(device, prepare):
    assert prepare(device, capability="7.0")[0] == f"volta: no such device: cuda:{device}"
