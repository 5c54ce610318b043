"""The small checkout that these tests run in."""

from __future__ import annotations

from pathlib import Path

import pytest

from .small_checkout import VERB, Checkout, lay, tiny_wheel


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny index."""
    folder = tmp_path_factory.mktemp("wheels")
    for name, version in (("tiny_build", "1"), ("tiny_engine", "1"), ("tiny_engine", "2")):
        tiny_wheel(folder, name, version, {f"{name}.py": f"VERSION = '{version}'\n"})
    for version, code in (("1", "sm_70 sm_75"), ("2", "sm_75 sm_90")):
        built_for = f"def _cuda_getArchFlags():\n    return '{code}'\n"
        files = {"torch/__init__.py": f"VERSION = __version__ = '{version}'\n", "torch/_C.py": built_for}
        tiny_wheel(folder, "torch", version, files)
    for version, code in (("1", "sm_70"), ("2", "sm_75")):
        ptxas = f"#!/bin/sh\necho \"Allowed values: '{code}','sm_90'\"\n"
        tiny_wheel(folder, "triton", version, {"triton/__init__.py": "", "triton/backends/nvidia/bin/ptxas": ptxas})
    tiny_wheel(folder, "tiny_nccl", "1", {"nvidia/nccl/lib/libnccl.so.2": "x"})
    tiny_wheel(folder, "nvidia_cublas", "13.1", {"nvidia/cu13/lib/libcublas.so.13": "x"})
    tiny_wheel(folder, "nvidia_nccl_cu13", "2", {"nvidia/other": "x"})
    tiny_wheel(folder, "nvidia_cublas_cu12", "12.8", {"nvidia/cublas/lib/libcublas.so.12": "x"})
    tiny_wheel(folder, "pytest", "1", {"pytest/__init__.py": "VERSION = '1'\n", "pytest/__main__.py": VERB})
    return folder


@pytest.fixture
def checkout(tmp_path: Path, wheels: Path) -> Checkout:
    """A checkout with nothing installed, in a folder with a space in its name."""
    return lay(Checkout(tmp_path / "a checkout", wheels))


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Checkout:
    """One checkout for all the tests that need an installed one, as making an environment takes seconds."""
    return Checkout(tmp_path_factory.mktemp("shared") / "a checkout", wheels)


@pytest.fixture
def installed(shared: Checkout) -> Checkout:
    """That checkout with its files as they should be and the engine's set installed, whatever the last test did."""
    shared.settings = {}
    lay(shared)
    result = shared.run("setup")
    assert result.returncode == 0, result.stderr
    return shared
