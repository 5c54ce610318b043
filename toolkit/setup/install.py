"""Brings an engine's environment to the state that the lock files name, in a few phases."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Sequence

from toolkit.errors import CheckFailedError
from toolkit.setup import space, stamp, venv
from toolkit.setup.exclusive import exclusive
from toolkit.setup.pip import Pip
from toolkit.setup.place import SETS, Place
from toolkit.setup.progress import Progress, say

ENGINE = "the engine and what it needs"
TITLES = {"build": "build tools", "cpu": ENGINE, "test": "test tools", "v100": ENGINE}


def ensure(place: Place, name: str, version: str | None) -> None:
    """Make sure that a set is installed; within milliseconds where its stamp says that it is.

    version: the Python ("3.12") that it must have, or None to keep whatever it has.

    Raises:
        CheckFailedError: the machine, the disk or the package index does not allow it.
    """
    if _ready(place, name, version):
        return
    with exclusive(place, lambda: say("another ./quickstart is installing here; waiting for it")) as held:
        if _ready(place, name, version):  # by the one that we waited for
            return
        space.check(place.venv, name)
        place.log.write_text("", encoding="utf-8")
        say(f"installing into {place.venv} (pip's own words: {place.log})")
        try:
            _install(place, name, version, held)
        finally:
            shutil.rmtree(place.temporary, ignore_errors=True)


def _ready(place: Place, name: str, version: str | None) -> bool:
    return stamp.valid(place, name) and version in (None, stamp.python_version(place.venv))


def _install(place: Place, name: str, version: str | None, held: int) -> None:
    works = venv.usable(place.venv, version)
    done = _installed(place) if works else set()
    parts = [part for part in SETS[name] if part not in done]
    torch = _torch(place) if "cpu" in parts else None
    progress = Progress(total=2 + len(parts) + bool(torch) + (not done))
    pip = Pip(place, held, progress.heard)
    with progress.phase("a virtual environment"):
        _prepare(place, works)
    for part in parts:
        if part == "cpu" and torch:
            with progress.phase(torch):
                pip.install_torch(torch)
        with progress.phase(TITLES[part]):
            pip.install("-r", str(place.requirements(part)))
    if not done:
        with progress.phase("this checkout"):
            pip.install("--editable", str(place.root))
    with progress.phase("check"):
        _check(place, SETS[name])
    for each, needs in SETS.items():
        if set(needs) <= set(SETS[name]):
            stamp.write(place, each)


def _installed(place: Place) -> set[str]:
    """The parts that a stamp vouches for; a server may be running from them, so they are left alone."""
    return {part for name, parts in SETS.items() if stamp.valid(place, name) for part in parts}


def _prepare(place: Place, works: bool) -> None:
    """A virtual environment that works and holds no half-installed package, and no stamp of what will change."""
    for name in SETS:
        if not stamp.valid(place, name):
            stamp.path(place, name).unlink(missing_ok=True)
    shutil.rmtree(place.temporary, ignore_errors=True)
    place.temporary.mkdir()
    if not works:
        said = venv.clear(place.venv)
        if said:
            say(f"{place.venv.name}: {said}")
        venv.make(place.venv)
    for package in venv.repair(place.venv):
        say(f"{place.venv.name}: {package} was not installed in full and is installed again")


def _torch(place: Place) -> str | None:
    """The lock's torch, which may have to come from another index than the rest."""
    lines = place.requirements("cpu").read_text(encoding="utf-8").splitlines()
    return next((line for line in lines if line.startswith("torch==")), None)


def _check(place: Place, parts: Sequence[str]) -> None:
    files = [str(place.requirements(part)) for part in parts]
    command = [str(place.python), "-I", "-m", "toolkit.setup.check", place.engine, *files]
    answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if answer.returncode != 0:
        first, *others = answer.stdout.strip().splitlines() or [f"exit code {answer.returncode}"]
        raise CheckFailedError(
            f"the installation is not right: {first}",
            where=str(place.venv),
            why="\n       ".join(others),
            fix=f"rm -r {shlex.quote(str(place.venv))}, and run the same command again",
        )
