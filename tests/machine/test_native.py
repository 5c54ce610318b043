"""Our own native library as a fact: none, one of these sources, one of others, and another interpreter's."""

import sys
from dataclasses import replace

import pytest

from toolkit.errors import CheckFailedError
from toolkit.machine import native as probing
from toolkit.machine.facts import NativeLibrary
from toolkit.machine.guard import CannotReadError
from toolkit.machine.native import native
from toolkit.native.build import sources_digest
from toolkit.native.info import Info, info

BUILT = Info("/x/volta_native.so", (), (), 1, "unknown", False, "")


@pytest.fixture
def sources(tmp_path):
    (tmp_path / "CMakeLists.txt").write_text("project(kernels)")
    return tmp_path


def found(monkeypatch, digest):
    monkeypatch.setattr(probing, "info", lambda: replace(BUILT, kernels_sha256=digest))


def test_one_of_these_sources_and_one_of_others(monkeypatch, sources, tmp_path):
    found(monkeypatch, sources_digest(sources))
    assert native(sys.executable, sources) == NativeLibrary(BUILT.path, current=True)
    (sources / "new.cu").write_text("changed")
    assert native(sys.executable, sources) == NativeLibrary(BUILT.path, current=False)
    assert native(sys.executable, tmp_path / "none") == NativeLibrary(BUILT.path, current=True)


def test_none(monkeypatch, sources):
    def missing():
        raise CheckFailedError("the native library is not built")

    monkeypatch.setattr(probing, "info", missing)
    assert native(sys.executable, sources) == NativeLibrary(None, fault="the native library is not built")


def test_another_interpreters_is_not_guessed(sources):
    with pytest.raises(CannotReadError, match="another interpreter"):
        native("/other/bin/python", sources)


def test_this_installations():
    """What the fact says is what the library's own manifest says."""
    found_here = native(sys.executable)
    try:
        made = info()
    except CheckFailedError:
        assert (found_here.path, found_here.fault) == (None, "the native library is not built")
    else:
        assert found_here.path == made.path
