import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # kernels/ holds the oracles and is no part of the installed package


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def built(root, tmp_path_factory):
    """The native library of this checkout, compiled if it is not up to date."""
    from toolkit.native import build
    from toolkit.native.toolchain import host_compiler

    if host_compiler() is None:
        pytest.skip("no C++ compiler here: apt-get install g++")
    cache = root / "build"  # shared by every run of this checkout
    return build.build_wheel(root, tmp_path_factory.mktemp("dist"), cache=cache, jobs=1)


@pytest.fixture(scope="session")
def volta(built):
    """torch.ops.volta, loaded from this checkout."""
    torch = pytest.importorskip("torch")
    from toolkit.native import load

    load()
    return torch.ops.volta
