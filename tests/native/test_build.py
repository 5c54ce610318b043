import os
from pathlib import Path

import pytest

from toolkit.errors import CheckFailedError
from toolkit.native.build import build_wheel


def test_a_machine_without_a_compiler_is_told_what_to_install(root, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(CheckFailedError) as caught:
        build_wheel(root, tmp_path / "dist", cache=root / "build")
    assert caught.value.what == "there is no C++ compiler on this machine"
    assert caught.value.fix == "apt-get install g++"
    assert not (tmp_path / "dist").exists()


@pytest.mark.usefixtures("built")  # or skipped: there is a compiler, and all is compiled
def test_relative_paths_are_those_of_the_caller(root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here = Path(os.path.relpath(root))
    wheel = build_wheel(here, Path("dist"), cache=here / "build", jobs=1)
    assert wheel.parent == tmp_path / "dist"
    assert wheel.is_file()
