"""What is installed in an environment: each distribution's version and a digest of its files.

Read from the installer's own records (`*.dist-info/RECORD`, which holds a SHA-256 of every file), so it takes
milliseconds. Lines that differ between two installs of one wheel are left out: generated scripts, byte code, and the
installer's notes.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from toolkit.linux.ask import answer, last_line

NOTES = ("INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_cache.json")
FOLDER = re.compile(r"(?P<name>.+)-(?P<version>[^-]+)\.dist-info")
INTERPRETER_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Package:
    """One distribution."""

    version: str
    files_sha256: str | None
    """Digest over the digests of its files; None where the installer kept no record."""


def installed(folders: Iterable[Path]) -> dict[str, Package]:
    """Distributions below an interpreter's import path, by normalised name; the first folder that has one wins."""
    found: dict[str, Package] = {}
    for folder in folders:
        for info in sorted(folder.glob("*.dist-info")):
            match = FOLDER.fullmatch(info.name)
            if match:
                name = re.sub(r"[-_.]+", "-", match["name"]).lower()
                found.setdefault(name, Package(match["version"], _digest(info / "RECORD")))
    return dict(sorted(found.items()))


def import_path(python: str) -> list[Path]:
    """The folders from which an interpreter imports; empty where it does not say."""
    if python == sys.executable:
        return [Path(folder) for folder in sys.path if folder]
    command = [python, "-I", "-c", "import json, sys; print(); print(json.dumps(sys.path))"]
    try:
        done = answer(command, INTERPRETER_TIMEOUT_S)
        return [Path(folder) for folder in json.loads(last_line(done.stdout)) if folder]
    except (OSError, subprocess.SubprocessError, ValueError, TypeError):
        return []


def _digest(record: Path) -> str | None:
    try:
        lines = record.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    kept = sorted(line for line in lines if _belongs(line.split(",", 1)[0]))
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()


def _belongs(path: str) -> bool:
    name = path.rpartition("/")[2]
    return not path.startswith("../") and not name.endswith(".pyc") and name not in NOTES
