"""Files of installed packages against the installer's records, in made-up environments and in this one."""

import sys
from itertools import count
from pathlib import Path

import pytest

from toolkit.machine import members as comparing
from toolkit.machine.facts import Member, Members
from toolkit.machine.members import members

FILES = {"torch/__init__.py": "import x", "torch/lib/libc10.so": "7 bytes", "torch/version.py": "v"}


def installed(home, name="torch-2.10.0", files=None, record=None):
    """A package with these files and a record of them, or with another record."""
    files = FILES if files is None else files
    for path, text in files.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text)
    info = home / f"{name}.dist-info"
    info.mkdir(parents=True)
    lines = [f"{path},sha256=x,{len(text)}" for path, text in files.items()] if record is None else record
    (info / "RECORD").write_text("\n".join([*lines, f"{info.name}/RECORD,,"]) + "\n")
    return info


def test_a_whole_package(tmp_path):
    installed(tmp_path)
    assert members([tmp_path, tmp_path / "none"]) == Members(3)


def test_what_is_gone_and_what_is_changed(tmp_path):
    installed(tmp_path)
    (tmp_path / "torch/lib/libc10.so").unlink()
    (tmp_path / "torch/version.py").write_text("edited")
    (tmp_path / "torch/new.py").write_text("nobody's")
    assert members([tmp_path]).faults == (
        Member("torch", "2.10.0", "torch/lib/libc10.so", 7, None),
        Member("torch", "2.10.0", "torch/version.py", 1, 6),
    )


def test_links_count_as_what_they_lead_to(tmp_path):
    installed(tmp_path)
    library = tmp_path / "torch/lib/libc10.so"
    library.unlink()
    library.symlink_to(tmp_path / "elsewhere.so")
    assert [member.found_bytes for member in members([tmp_path]).faults] == [None]
    (tmp_path / "elsewhere.so").write_text("7 bytes")
    assert members([tmp_path]).faults == ()


@pytest.mark.parametrize(
    "line",
    [
        "../../../bin/vllm,sha256=x,10", "/etc/x.py,sha256=x,3", "torch/__pycache__/a.cpython-311.pyc,,",
        "torch/include/a.h,sha256=x,9", "torch-2.10.0.dist-info/METADATA,sha256=x,9", "",
    ],
)  # fmt: skip
def test_what_is_no_code_of_the_package_is_not_looked_for(tmp_path, line):
    installed(tmp_path, files={}, record=[line])
    assert members([tmp_path]) == Members(0)


@pytest.mark.parametrize(
    "path", ["triton/backends/nvidia/bin/ptxas", "torch/lib/libnvrtc.so.12", "triton/libdevice.10.bc", '"a, b.py"']
)
def test_code_of_every_kind_is_looked_for(tmp_path, path):
    installed(tmp_path, files={}, record=[f"{path},sha256=x,9", "torch/unsized.py,,"])
    found = members([tmp_path])
    assert [member.path for member in found.faults] == [path.strip('"'), "torch/unsized.py"]
    assert [member.recorded_bytes for member in found.faults] == [9, None]


def test_only_the_packages_that_matter(tmp_path):
    installed(tmp_path, "requests-2.0", {}, ["requests/gone.py,,1"])
    for name in ("nvidia_cublas_cu12-12.8.4.1", "vllm-0.32.0", "Flash_Attn-2.8.3"):
        installed(tmp_path, name, {}, [f"{name}/gone.py,,1"])
    assert {(member.package, member.version) for member in members([tmp_path]).faults} == {
        ("nvidia-cublas-cu12", "12.8.4.1"), ("vllm", "0.32.0"), ("flash-attn", "2.8.3"),
    }  # fmt: skip


def test_the_copy_that_is_imported_counts(tmp_path):
    installed(tmp_path / "a")
    installed(tmp_path / "b", "torch-2.9.1", {}, ["torch/gone.py,,1"])
    assert members([tmp_path / "a", tmp_path / "b"]).faults == ()
    assert len(members([tmp_path / "b", tmp_path / "a"]).faults) == 1


def test_no_record_and_one_that_cannot_be_read(tmp_path):
    (installed(tmp_path) / "RECORD").unlink()
    (installed(tmp_path, "triton-3.6.0", {}) / "RECORD").write_bytes(b"\xff\xfe")
    assert members([tmp_path]) == Members(0, without_record=("torch", "triton"))


def test_many_faults_and_little_time(tmp_path):
    installed(tmp_path, files={}, record=[f"torch/gone{number}.py,,1" for number in range(50)])
    installed(tmp_path, "triton-3.6.0", {})
    ticks = count(0, comparing.SECONDS * 0.6)
    found = members([tmp_path], clock=lambda: next(ticks))
    assert (found.compared, len(found.faults), found.unread) == (50, comparing.MOST, ("triton",))


def test_this_environment():
    found = members([Path(folder) for folder in sys.path if folder])
    assert found.compared > 1000
    assert found.faults == ()
    assert found.unread == ()
