"""`build`'s mistakes, before anything is compiled."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "config"))
import cli


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    for folder, why in ((tmp_path / "file", "it is a file"), (tmp_path / "file" / "below", "Not a directory")):
        result = cli.call("build", f"folder={folder}")
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.splitlines() == [
            "error: the wheel's folder cannot be made",
            f"  where: folder={folder}",
            f"  why: {why}",
            "  fix: set folder=DIR",
        ]
    assert (tmp_path / "file").read_text() == ""
