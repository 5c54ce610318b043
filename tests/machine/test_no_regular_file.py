"""Installed packages in which something else lies where a file should: no probe opens it, and none waits for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from toolkit.errors import CheckFailedError
from toolkit.machine.extensions import extensions
from toolkit.machine.facts import Extensions, Member, Members
from toolkit.machine.guard import read_all
from toolkit.machine.members import members
from toolkit.machine.software import software
from toolkit.native.elf.image import Image


def fifo(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    return path


def device(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to("/dev/zero")  # which has no end
    return path


@pytest.fixture(params=[fifo, device])
def odd(request: pytest.FixtureRequest) -> Callable[[Path], Path]:
    return request.param


def read(probe: Callable[[Sequence[Path]], Any], folder: Path) -> Any:
    """What a probe answers at once; one that waits is left behind."""
    reading = read_all({"it": lambda: probe([folder])}, deadline_s=3)["it"]
    assert reading.reason is None
    return reading.value


def test_libraries(tmp_path: Path, odd: Callable[[Path], Path]) -> None:
    (tmp_path / "torch-2.10.0.dist-info").mkdir()
    for name in ("flash_attn/odd.so", "torch/lib/libtorch_cuda.so", "torch/lib/libc10.so"):
        odd(tmp_path / name)
    assert read(extensions, tmp_path) == Extensions((), ())
    assert read(lambda folders: software("/bin/python", folders), tmp_path).device_code == ()


def test_entry_points_and_records(tmp_path: Path, odd: Callable[[Path], Path]) -> None:
    odd(tmp_path / "torch-2.10.0.dist-info/entry_points.txt")
    odd(tmp_path / "torch-2.10.0.dist-info/RECORD")
    assert read(lambda folders: software("/bin/python", folders), tmp_path).platform_plugins == ()
    assert read(members, tmp_path) == Members(0, without_record=("torch",))


def test_what_is_no_file_is_not_the_file_that_was_installed(tmp_path: Path, odd: Callable[[Path], Path]) -> None:
    record = tmp_path / "torch-2.10.0.dist-info/RECORD"
    record.parent.mkdir()
    record.write_text("torch/__init__.py,sha256=x,0\n")
    odd(tmp_path / "torch/__init__.py")
    assert read(members, tmp_path).faults == (Member("torch", "2.10.0", "torch/__init__.py", 0, None),)


def test_our_own_library(tmp_path: Path, odd: Callable[[Path], Path]) -> None:
    with pytest.raises(CheckFailedError, match="the library cannot be read") as caught:
        Image.read(odd(tmp_path / "volta_native.so"))
    assert caught.value.why == "it is not a regular file"
