"""Limits, disks and the driver, against what the machine itself says."""

import os
import resource
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from toolkit.machine import system
from toolkit.machine.facts import NO_LIMIT, Docker
from toolkit.machine.guard import CannotReadError


def test_limits_are_this_process_own():
    said = subprocess.check_output(["bash", "-c", "ulimit -n; ulimit -l"], text=True).split()
    files, locked = (NO_LIMIT if word == "unlimited" else int(word) for word in said)
    assert system.limit(resource.RLIMIT_NOFILE) == files
    assert system.limit(resource.RLIMIT_MEMLOCK) == (locked if locked == NO_LIMIT else locked * 1024)


def test_free_space_of_a_folder_that_is_not_there_yet(tmp_path):
    free = shutil.disk_usage(tmp_path).free
    assert abs(system.free_bytes(tmp_path / "a" / "b") - free) < 2**30
    assert set(system.disks([tmp_path, tmp_path / "x"])) == {str(tmp_path), str(tmp_path / "x")}


def test_folders_that_nothing_can_be_made_in(tmp_path):
    (tmp_path / "file").write_text("")
    folders = {"here": tmp_path, "to be made": tmp_path / "a/b", "below a file": tmp_path / "file/a"}
    assert system.unwritable(folders) == {"below a file": f"{tmp_path / 'file'} is no folder"}
    assert system.unwritable({"kernel": Path("/proc/volta")}).keys() <= {"kernel"}
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("flags", "reason"),
    [(os.ST_RDONLY, "is on a file system that is only read"), (0, "is not this user's to write")],
)
def test_why_a_folder_is_not_written_to(monkeypatch, tmp_path, flags, reason):
    """The administrator, who runs this suite in containers, may write everywhere; so the kernel's answer is made up."""
    monkeypatch.setattr(os, "access", lambda folder, mode: False)
    monkeypatch.setattr(os, "statvfs", lambda folder: SimpleNamespace(f_flag=flags))
    assert system.unwritable({"x": tmp_path / "new"}) == {"x": f"{tmp_path} {reason}"}


def test_only_folders_on_disks_of_their_own_are_named_again(tmp_path):
    shm = Path("/dev/shm/volta-none")
    assert list(system.elsewhere([tmp_path / "a", tmp_path / "b/c"], [tmp_path])) == []
    assert list(system.elsewhere([tmp_path / "a"], [tmp_path / "b"])) == [tmp_path / "a"]
    assert list(system.elsewhere([shm, tmp_path], [Path("/")]))[:1] == [shm]


def test_memory_nodes():
    assert 1 <= system.numa_nodes() <= len(list(Path("/sys/devices/system/node").glob("node[0-9]*")))


@pytest.mark.parametrize(("allowed", "nodes"), [("0", 1), ("0-1", 2), ("0-1,4,6-7", 5)])
def test_memory_nodes_that_a_process_may_use(monkeypatch, tmp_path, allowed, nodes):
    """A container may be given some of the machine's."""
    monkeypatch.setattr(system, "STATUS", tmp_path / "status")
    (tmp_path / "status").write_text(f"Name:\tpython\nMems_allowed:\t00000003\nMems_allowed_list:\t{allowed}\n")
    assert system.numa_nodes() == nodes


def test_the_kernel_modules_version(monkeypatch, tmp_path):
    monkeypatch.setattr(system, "MODULE_VERSION", tmp_path / "version")
    assert system.driver() is None
    (tmp_path / "version").write_text("570.86.15\n")
    assert system.driver() == "570.86.15"


@pytest.mark.parametrize(
    ("name", "version"), [("libcuda.so.570.86.15", "570.86.15"), ("libcuda.so.1", None), ("libcuda.so.x", None)]
)
def test_the_library_that_programs_load(monkeypatch, tmp_path, name, version):
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / name).write_bytes(b"")
    if name != "libcuda.so.1":
        (folder / "libcuda.so.1").symlink_to(name)
    cache = tmp_path / "ld.so.cache"
    entry = os.fsencode(folder / "libcuda.so.1")
    cache.write_bytes(b"glibc-ld.so.cache1.1\0libcuda.so.1\0" + entry + b"\0/usr/lib/libcudart.so.12\0")
    monkeypatch.setattr(system, "LOADER_CACHE", cache)
    monkeypatch.setattr(system, "LIBRARY_FOLDERS", ())
    assert system.driver_library() == version


def test_a_machine_without_the_loaders_cache(monkeypatch, tmp_path):
    monkeypatch.setattr(system, "LOADER_CACHE", tmp_path / "none")
    monkeypatch.setattr(system, "LIBRARY_FOLDERS", (str(tmp_path),))
    assert system.driver_library() is None
    (tmp_path / "libcuda.so.535.86.10").write_bytes(b"")
    (tmp_path / "libcuda.so.1").symlink_to("libcuda.so.535.86.10")
    assert system.driver_library() == "535.86.10"


@pytest.fixture
def docker_says(monkeypatch, tmp_path):
    """Put a command named docker first that says this."""

    def put(script):
        program = tmp_path / "docker"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    return put


def test_docker(docker_says):
    docker_says("echo '28.3.2 io.containerd.runc.v2 nvidia runc '")
    assert system.docker() == Docker("28.3.2", True)
    docker_says("echo '28.3.2 runc '")
    assert system.docker() == Docker("28.3.2", False)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'Cannot connect to the daemon' >&2; exit 1", "docker does not answer: Cannot connect to the daemon"),
        ("exit 3", "docker does not answer: exit code 3"),
        ("exit 0", "docker does not answer: exit code 0"),
        ("sleep 5", "docker does not answer: Command"),
    ],
)
def test_docker_that_does_not_answer(docker_says, monkeypatch, script, why):
    monkeypatch.setattr(system, "DOCKER_TIMEOUT_S", 0.3)
    docker_says(script)
    with pytest.raises(CannotReadError) as caught:
        system.docker()
    assert str(caught.value).startswith(why)


def test_a_machine_without_docker(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert system.docker() is None
