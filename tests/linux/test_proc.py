"""Processes are read, named and found."""

import os
import subprocess
import sys

from harness import until

from toolkit.linux import proc


def test_this_process_is_found_with_its_parent_and_identity():
    here = proc.read(os.getpid())
    assert (here.parent, here.group, here.session) == (os.getppid(), os.getpgrp(), os.getsid(0))
    assert os.getpid() in {p.pid for p in proc.all_processes()}
    assert proc.identify(os.getpid()).alive


def test_an_identity_does_not_survive_its_process_its_pid_or_a_reboot():
    child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    identity = proc.identify(child.pid)
    assert identity.alive
    assert not proc.Identity(identity.pid, identity.started + 1, identity.boot).alive
    assert not proc.Identity(identity.pid, identity.started, "another boot").alive
    child.stdin.close()
    until(lambda: proc.read(child.pid).dead)
    assert not identity.alive  # a zombie runs no more
    child.wait()
    assert not identity.alive


def test_a_name_with_blanks_and_parentheses_is_parsed(tmp_path):
    script = "import ctypes; ctypes.CDLL(None).prctl(15, b'a) b (c', 0, 0, 0); input()"
    child = subprocess.Popen([sys.executable, "-S", "-c", script], stdin=subprocess.PIPE)
    until(lambda: "a) b (c" in (proc.ROOT / str(child.pid) / "stat").read_text())
    assert proc.read(child.pid).parent == os.getpid()
    child.communicate(b"\n")


def test_descendants_come_after_their_parents():
    def process(pid: int, parent: int) -> proc.Process:
        return proc.Process(pid, parent, pid, pid, 0, False, 0.0)

    everyone = [process(5, 4), process(4, 2), process(2, 1), process(3, 1), process(9, 8)]
    assert [p.pid for p in proc.descendants(1, everyone)] == [2, 3, 4, 5]
    assert proc.descendants(77, everyone) == []


def test_a_process_that_is_gone_is_nothing():
    assert proc.read(2**22 + 1) is None
    assert proc.marker_of(2**22 + 1) is None
    assert proc.title(2**22 + 1) == ""
    assert proc.bytes_read(2**22 + 1) == 0


def test_the_marker_is_read_from_the_environment():
    env = {proc.MARKER: "/runs/ä", "X": "1"}
    child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], env=env, stdin=subprocess.PIPE)
    until(lambda: proc.marker_of(child.pid) == "/runs/ä")
    child.communicate(b"\n")
