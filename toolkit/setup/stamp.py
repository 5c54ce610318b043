"""Stamps: a small file in an environment that says which exact state of the requirements is installed there.

A stamp is written last and whole, so an installation that was killed leaves none and the next run repairs it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from pathlib import Path

from toolkit.setup.place import SETS, Place


def python_version(venv: Path) -> str | None:
    """The "3.11" that a virtual environment was made with, from its pyvenv.cfg; None where there is none."""
    try:
        text = (venv / "pyvenv.cfg").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    match = re.search(r"^version(?:_info)?\s*=\s*(\d+\.\d+)", text, re.MULTILINE)
    return match.group(1) if match else None


def key(place: Place, name: str) -> str:
    """A digest of all that decides what a set installs: the lock files, our metadata, the Python, the place."""
    project = tomllib.loads((place.root / "pyproject.toml").read_text(encoding="utf-8"))
    decisive = {table: project.get(table) for table in ("project", "build-system")}
    decisive["scikit-build"] = project.get("tool", {}).get("scikit-build")
    digest = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode())
    digest.update((place.root / "toolkit" / "__init__.py").read_bytes())  # our version
    digest.update(f"{place.venv} {python_version(place.venv)}".encode())
    for part in SETS[name]:
        digest.update(place.requirements(part).read_bytes())
    return digest.hexdigest()


def path(place: Place, name: str) -> Path:
    """The stamp of a set."""
    return place.venv / f".installed-{name}"


def valid(place: Place, name: str) -> bool:
    """Whether a set is installed as the files say; looks at a few files only, so it costs milliseconds."""
    try:
        stamped = path(place, name).read_text(encoding="utf-8") == key(place, name)
    except OSError:
        return False
    packages = place.venv / "lib" / f"python{python_version(place.venv)}" / "site-packages"
    return stamped and os.access(place.python, os.X_OK) and (packages / "pip" / "__main__.py").exists()


def write(place: Place, name: str) -> None:
    """Stamp a set as installed, durably: what it vouches for is on the disk first."""
    os.sync()
    final = path(place, name)
    fresh = final.with_name(final.name + ".new")
    fresh.write_text(key(place, name), encoding="utf-8")
    fresh.replace(final)
