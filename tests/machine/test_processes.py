"""Engine processes in /proc: a made-up tree, and real ones of this machine."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from toolkit.machine.processes import engine_processes


def proc(folder: Path, *processes: tuple[int, int, str, str], maps: dict[int, str] | None = None) -> Path:
    """A /proc with (PID, parent, name, command line)."""
    for pid, parent, name, command in processes:
        home = folder / str(pid)
        home.mkdir()
        (home / "stat").write_text(f"{pid} ({name}) S {parent} {'0 ' * 40}")
        (home / "comm").write_text(f"{name}\n")
        (home / "cmdline").write_bytes(command.replace(" ", "\0").encode())
        if maps and pid in maps:
            (home / "maps").write_text(maps[pid])
    (folder / "meminfo").write_text("")
    return folder


SERVER = (10, 5, "python", "python -m vllm.entrypoints.openai.api_server")
CORE, WORKER = (11, 10, "VLLM::EngineCor", "VLLM::EngineCore"), (12, 11, "VLLM::Worker", "VLLM::Worker_TP0")


def seen(folder, gpu_bytes=None):
    return {process.pid: process for process in engine_processes(gpu_bytes or {}, folder)}


def test_a_server_that_lives(tmp_path):
    found = seen(proc(tmp_path, (1, 0, "systemd", "/sbin/init"), (5, 1, "bash", "bash"), SERVER, CORE, WORKER))
    assert {pid: process.orphaned for pid, process in found.items()} == {11: False, 12: False}
    assert found[12].title == "VLLM::Worker_TP0"


@pytest.mark.parametrize(
    "reaper",
    [(1, 0, "systemd", "/sbin/init"), (5, 1, "systemd", "systemd --user"), (5, 1, "containerd-shim", "shim"),
     (5, 1, "tini", "tini -- x")],
)  # fmt: skip
def test_helpers_without_a_server_are_orphans(tmp_path, reaper):
    found = seen(proc(tmp_path, reaper, (11, reaper[0], "VLLM::EngineCor", "VLLM::EngineCore"), WORKER))
    assert {pid: process.orphaned for pid, process in found.items()} == {11: True, 12: True}


def test_a_parent_that_is_gone_meanwhile(tmp_path):
    assert seen(proc(tmp_path, (11, 99, "VLLM::EngineCor", "VLLM::EngineCore")))[11].orphaned is False


def test_names_with_parentheses_and_loops_end(tmp_path):
    found = seen(proc(tmp_path, (11, 12, "VLLM) S 1 (", "VLLM::A"), (12, 11, "VLLM", "VLLM::B")))
    assert set(found) == {11, 12}


def test_who_holds_gpu_memory_is_listed_whatever_its_name(tmp_path):
    found = seen(proc(tmp_path, (20, 1, "blender", "blender -b x.blend"), (21, 1, "cat", "cat")), {20: 5, 404: 6})
    assert set(found) == {20}
    assert (found[20].gpu_bytes, found[20].orphaned) == (5, False)


def test_libraries_that_were_replaced(tmp_path):
    head = "7f00-7f01 r-xp 00000000 08:01 1 "
    text = (
        f"{head}                  /site/torch/lib/libtorch_cuda.so (deleted)\n"
        f"{head}                  /site/torch/lib/libtorch_cuda.so (deleted)\n"
        f"{head}                  /site/a b/_C.abi3.so (deleted)\n"
        f"{head}                  /site/kept.so\n{head} /tmp/file (deleted)\n{head} /memfd:x.so (deleted)\n"
        "7f00-7f01 rw-p 0 0 0\n"
    )
    found = seen(proc(tmp_path, SERVER, CORE, maps={11: text}))
    assert found[11].replaced == ("/memfd:x.so", "/site/a b/_C.abi3.so", "/site/torch/lib/libtorch_cuda.so")


def started(command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(["bash", "-c", command], stdout=subprocess.PIPE, text=True)


def wait_until(condition, patience_s=10.0):
    end = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_real_orphan():
    shell = started("(exec -a VLLM::EngineCore sleep 60) & echo $!; exec sleep 0")
    pid = int(shell.stdout.readline())
    shell.wait()
    try:
        wait_until(lambda: any(p.pid == pid and p.title.startswith("VLLM::") for p in engine_processes({})))
        parent = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        orphan = next(p for p in engine_processes({}) if p.pid == pid)
        assert orphan.orphaned or parent != 1  # some containers have a reaper of another name
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_real_helper_of_a_server_that_lives():
    shell = started("exec -a VLLM::EngineCore sleep 60")
    try:
        wait_until(lambda: any(process.pid == shell.pid for process in engine_processes({})))
        assert [p.orphaned for p in engine_processes({}) if p.pid == shell.pid] == [False]
    finally:
        shell.kill()
        shell.wait()


def test_a_real_library_that_was_removed(tmp_path):
    library = tmp_path / "mapped.so"
    library.write_bytes(b"x" * 4096)
    code = (
        f"import mmap, os; f = open({str(library)!r}, 'rb'); m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ);"
        f"os.unlink({str(library)!r}); print('ready', flush=True); input()"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        found = next(process for process in engine_processes({child.pid: 1}) if process.pid == child.pid)
        assert found.replaced == (str(library),)
    finally:
        child.communicate("\n")
