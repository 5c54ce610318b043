"""The virtual environment itself: made, kept while it works, and made again when it does not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from toolkit.errors import CheckFailedError
from toolkit.setup.stamp import python_version

OURS = ".made-by-quickstart"  # what carries this file may be deleted and made again; anything else is moved aside


def usable(venv: Path, version: str | None) -> bool:
    """Whether its interpreter runs, is new enough (or exactly the version asked for), and has pip.

    One that was moved is not: its scripts name the interpreter's old path.
    """
    made_with = python_version(venv)
    if made_with is None or (version is not None and made_with != version) or _moved(venv):
        return False
    probe = "import sys, pip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))"
    command = [str(venv / "bin" / "python"), "-I", "-c", probe]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _moved(venv: Path) -> bool:
    try:
        return (venv / OURS).read_text(encoding="utf-8") != _mark(venv)
    except FileNotFoundError:  # not made by us, so it must be taken as it is
        return False


def _mark(venv: Path) -> str:
    return f"{venv}\n./quickstart made this folder there and may delete it and make it again.\n"


def clear(venv: Path) -> str:
    """Make room for a new one and say in a few words what was done with the old one ("" if there was none).

    The folder itself stays where it is a link to another disk.
    """
    if not os.path.lexists(venv) or (venv.is_dir() and not any(venv.iterdir())):
        return ""
    if (venv / OURS).exists():
        for entry in sorted(venv.iterdir(), key=lambda item: item.name == OURS):  # the mark goes last
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        return "the old one did not work and was deleted"
    target = next(path for i in count(1) if not (path := venv.with_name(f"{venv.name}-old-{i}")).exists())
    venv.rename(target)
    return f"the old one did not work and is now {target.name}"


def make(venv: Path) -> None:
    """Make a fresh one with the interpreter that runs this, marked as ours before anything else is in it.

    Raises CheckFailedError where Python cannot.
    """
    venv.mkdir(exist_ok=True)
    (venv / OURS).write_text(_mark(venv), encoding="utf-8")
    command = [sys.executable, "-I", "-m", "venv", str(venv.resolve())]  # venv refuses a link
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        said = (made.stdout + made.stderr).strip().splitlines()
        raise CheckFailedError(
            "Python could not make a virtual environment",
            where=str(venv),
            why=said[-1] if said else f"exit code {made.returncode}",
            fix="apt-get install python3-venv",
        )


def incomplete(venv: Path) -> Iterator[Path]:
    """The *.dist-info folders of packages whose files are not all there, as a killed pip leaves them.

    pip would take such a package for installed. A package without its list of files counts as incomplete.
    """
    for info in venv.glob("lib/python3*/site-packages/*.dist-info"):
        try:
            rows = (info / "RECORD").read_text(encoding="utf-8").splitlines()
        except OSError:
            yield info
            continue
        if not all(_present(info.parent, row) for row in rows):
            yield info


def _present(packages: Path, row: str) -> bool:
    """Whether a RECORD row's file is there with the size it names; byte code is anyone's to write again."""
    name, _, size = row.rsplit(",", 2)
    file = packages / name.strip('"')
    try:
        return not size or name.endswith(".pyc") or file.stat().st_size == int(size)
    except OSError:
        return False


def repair(venv: Path) -> list[str]:
    """Forget every incomplete package, so that pip installs it again; returns their names."""
    broken = list(incomplete(venv))
    for info in broken:
        shutil.rmtree(info)
    return [info.name.removesuffix(".dist-info") for info in broken]
