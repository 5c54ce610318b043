"""The virtual environment's repair, piece by piece."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from toolkit.setup import stamp, venv
from toolkit.setup.place import Place

from .small_checkout import Checkout

VERSION = "{}.{}".format(*sys.version_info[:2])


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """An environment without pip."""
    folder = tmp_path / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder


def give_pip(folder: Path) -> None:
    package = folder / f"lib/python{VERSION}/site-packages/pip"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").touch()


def test_one_without_pip_is_not_usable(bare: Path) -> None:
    assert not venv.usable(bare, None)
    give_pip(bare)
    assert venv.usable(bare, None)


def test_one_of_another_python_is_not_usable_where_a_python_is_asked_for(bare: Path) -> None:
    give_pip(bare)
    assert venv.usable(bare, VERSION)
    assert not venv.usable(bare, "3.99")


def test_one_of_ours_that_was_moved_is_not_usable(bare: Path) -> None:
    give_pip(bare)
    (bare / venv.OURS).write_text("/elsewhere\n")
    assert not venv.usable(bare, None)


@pytest.mark.parametrize("damage", ["python", "pyvenv.cfg", "all"])
def test_a_damaged_one_is_not_usable(bare: Path, damage: str) -> None:
    give_pip(bare)
    if damage == "all":
        bare = bare / "absent"
    elif damage == "python":
        (bare / "bin/python").unlink()
    else:
        (bare / damage).unlink()
    assert not venv.usable(bare, None)


def test_what_is_ours_is_deleted_also_behind_a_link(tmp_path: Path) -> None:
    target = tmp_path / "large disk"
    (target / "lib").mkdir(parents=True)
    (target / venv.OURS).touch()
    (target / "lib64").symlink_to("lib")
    link = tmp_path / ".venv"
    link.symlink_to(target)
    assert venv.clear(link) == "the old one did not work and was deleted"
    assert link.readlink() == target
    assert list(target.iterdir()) == []


def test_what_is_not_ours_is_kept_under_a_free_name(tmp_path: Path) -> None:
    for turn in (1, 2):
        (tmp_path / ".venv").mkdir()
        (tmp_path / ".venv/precious").write_text(str(turn))
        assert venv.clear(tmp_path / ".venv") == f"the old one did not work and is now .venv-old-{turn}"
    assert [(tmp_path / f".venv-old-{turn}/precious").read_text() for turn in (1, 2)] == ["1", "2"]


def test_a_file_in_its_place_is_kept_too(tmp_path: Path) -> None:
    (tmp_path / ".venv").write_text("mine")
    assert venv.clear(tmp_path / ".venv") == "the old one did not work and is now .venv-old-1"
    assert (tmp_path / ".venv-old-1").read_text() == "mine"


def test_nothing_and_an_empty_folder_need_no_word(tmp_path: Path) -> None:
    assert venv.clear(tmp_path / ".venv") == ""
    (tmp_path / ".venv").mkdir()
    assert venv.clear(tmp_path / ".venv") == ""


RECORD = '"a,b.py",,4\nc.py,sha256=x,4\n__pycache__/c.pyc,sha256=x,9\nd/RECORD,,\n'


@pytest.mark.parametrize(
    ("files", "whole"),
    [
        ({"a,b.py": "1234", "c.py": "1234", "d/RECORD": ""}, True),
        ({"a,b.py": "1234", "c.py": "123", "d/RECORD": ""}, False),
        ({"c.py": "1234", "d/RECORD": ""}, False),
        ({"a,b.py": "1234", "c.py": "1234", "__pycache__/c.pyc": "1", "d/RECORD": ""}, True),
    ],
)
def test_a_package_is_whole_if_its_files_have_their_sizes(tmp_path: Path, files: dict[str, str], whole: bool) -> None:
    packages = tmp_path / "lib/python3.11/site-packages"
    for name, text in files.items():
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_text(text)
    info = packages / "c-1.dist-info"
    info.mkdir()
    (info / "RECORD").write_text(RECORD)
    assert venv.repair(tmp_path) == ([] if whole else ["c-1"])
    assert info.exists() is whole


def test_a_package_without_its_list_of_files_is_not_whole(tmp_path: Path) -> None:
    (tmp_path / "lib/python3.11/site-packages/c-1.dist-info").mkdir(parents=True)
    assert venv.repair(tmp_path) == ["c-1"]


@pytest.mark.parametrize("change", ["requirements/cpu.txt", "toolkit/__init__.py", "pyproject.toml", "pip", "python"])
def test_a_stamp_is_void_after_any_change(checkout: Checkout, change: str) -> None:
    place = Place(checkout.root)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place.venv], check=True)
    give_pip(place.venv)
    stamp.write(place, "cpu")
    assert stamp.valid(place, "cpu")
    assert not stamp.valid(place, "test")
    if change == "pip":
        (checkout.packages / "pip/__main__.py").unlink()
    elif change == "python":
        place.python.unlink()
    elif change == "pyproject.toml":
        checkout.edit(change, 'name = "volta-toolkit"', 'name = "other"')
    else:
        (checkout.root / change).write_text("x==1\n")
    assert not stamp.valid(place, "cpu")


def test_a_linters_setting_does_not_void_a_stamp(checkout: Checkout) -> None:
    place = Place(checkout.root)
    before = stamp.key(place, "cpu")
    with (checkout.root / "pyproject.toml").open("a") as file:
        file.write("\n[tool.ruff]\nline-length = 100\n")
    assert stamp.key(place, "cpu") == before
