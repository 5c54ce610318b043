"""A reader finds the old file or the new one."""

import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from toolkit.runs.atomic import write_text

WRITER = """
import sys
from pathlib import Path
from toolkit.runs.atomic import write_text
path, size = Path(sys.argv[1]), 200_000
number = 0
print("writing", flush=True)
while True:
    number += 1
    write_text(path, f"{number}," * size)
"""


def test_a_file_is_replaced(tmp_path):
    path = tmp_path / "file"
    write_text(path, "old")
    write_text(path, "new")
    assert path.read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_kill_in_the_middle_leaves_a_whole_file(tmp_path):
    path = tmp_path / "file"
    for _ in range(5):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
        writer.stdout.readline()
        while not path.exists():
            assert writer.poll() is None
        writer.kill()
        writer.wait()
        writer.stdout.close()
        numbers = path.read_text().rstrip(",").split(",")
        assert len(numbers) == 200_000
        assert len(set(numbers)) == 1


def test_a_full_disk_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "file"
    write_text(path, "old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        with pytest.raises(OSError, match="File too large"):
            write_text(path, "x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_text(tmp_path / "nowhere" / "file", "x")
    assert not Path(tmp_path / "nowhere").exists()
