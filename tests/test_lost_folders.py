"""A working folder or a disk that is gone under a verb is told in our words."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "config"))
import cli

from toolkit.errors import ConfigurationError
from toolkit.runs.folder import create
from toolkit.runs.receipt import Receipt
from toolkit.serving import session


def test_a_working_folder_that_was_removed(tmp_path):
    command = ["sh", "-c", 'rmdir "$PWD"; exec "$@"', "sh", sys.executable, "-m", "toolkit.status"]
    env = {**os.environ, "PYTHONPATH": str(cli.REPOSITORY)}
    result = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 2
    assert cli.first_line(result.stderr) == "error: the folder that this was started in is gone"
    assert "Traceback" not in result.stderr


def test_a_run_whose_first_record_cannot_be_written_leaves_no_folder(tmp_path, monkeypatch):
    folder = create(tmp_path, "m")
    receipt = Receipt("r", "0", "", "", {}, {}, [], {}, [], {}, {})

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(session, "write_text", full)
    with pytest.raises(ConfigurationError, match="the run's records cannot be written"):
        session.open_session(folder, receipt, frozenset(), None)
    assert list(tmp_path.iterdir()) == []
