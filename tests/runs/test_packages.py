"""Packages are told apart by their files, not by how they were installed."""

import json
import sys
from pathlib import Path

from toolkit.runs.packages import Package, import_path, installed

RECORD = "pkg/__init__.py,sha256=abc,10\npkg/__pycache__/x.cpython-311.pyc,,\n../../../bin/tool,sha256=zzz,5\npkg-1.0.dist-info/METADATA,sha256=m,3\npkg-1.0.dist-info/RECORD,,\n"  # noqa: E501


def distribution(folder: Path, record: str, name: str = "pkg-1.0") -> Path:
    info = folder / f"{name}.dist-info"
    info.mkdir(parents=True)
    (info / "RECORD").write_text(record)
    return folder


def test_the_digest_depends_on_files_alone(tmp_path):
    one = installed([distribution(tmp_path / "a", RECORD)])["pkg"]
    noise = "pkg-1.0.dist-info/REQUESTED,sha256=e,0\npkg-1.0.dist-info/INSTALLER,sha256=uv,2\n"
    other = RECORD.replace("zzz", "another shebang") + noise
    assert installed([distribution(tmp_path / "b", other)])["pkg"] == one
    changed = RECORD.replace("abc", "abd")
    assert installed([distribution(tmp_path / "c", changed)])["pkg"] != one


def test_names_are_normalised_and_the_first_folder_wins(tmp_path):
    first = distribution(tmp_path / "a", RECORD, "My_Pkg.X-1.0")
    second = distribution(tmp_path / "b", RECORD, "my_pkg_x-2.0+cpu")
    assert installed([first, second])["my-pkg-x"].version == "1.0"
    assert installed([second])["my-pkg-x"].version == "2.0+cpu"


def test_without_a_record_only_the_version_is_known(tmp_path):
    (tmp_path / "pkg-1.0.dist-info").mkdir()
    assert installed([tmp_path, tmp_path / "nowhere"]) == {"pkg": Package("1.0", None)}


def test_this_interpreter_has_what_runs_the_tests():
    assert installed(import_path(sys.executable))["pytest"].files_sha256


def test_another_interpreter_is_asked(tmp_path):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    assert set(import_path(str(python))) <= {Path(folder) for folder in sys.path} | {Path(sys.path[0])}
    assert import_path(str(python)) != []


def test_what_an_environment_prints_at_the_start_of_python_is_passed_over(tmp_path):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nprintf "[] says a .pth file"\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    assert Path(json.__file__).parents[1] in import_path(str(python))


def test_what_is_no_interpreter_has_no_packages(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho nonsense\n")
    python.chmod(0o755)
    assert import_path(str(python)) == []
    assert import_path(str(tmp_path / "nothing")) == []
