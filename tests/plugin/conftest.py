"""What the plugin's tests share."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def library() -> Path:
    """The native library of this checkout, compiled if it is not up to date; every environment finds it there."""
    from toolkit.native import build
    from toolkit.native.toolchain import host_compiler

    if host_compiler() is None:
        pytest.skip("no C++ compiler here: apt-get install g++")
    with tempfile.TemporaryDirectory() as folder:
        build.build_wheel(ROOT, Path(folder), cache=ROOT / "build", jobs=1)
    return ROOT / "build/native/volta_native.so"
