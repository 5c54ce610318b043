"""Where an engine's things are in a checkout, and the requirement files of each set."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# What a set installs, in this order; the last one is of the other engine, in an environment of its own.
SETS = {"cpu": ("build", "cpu"), "test": ("build", "cpu", "test"), "v100": ("build", "v100")}
VENVS = {"cpu": ".venv", "v100": ".venv-v100"}  # the engines hold different builds of torch, so they cannot share one


@dataclass(frozen=True)
class Place:
    """The paths that belong to one engine in one checkout."""

    root: Path
    engine: str = "cpu"

    @property
    def venv(self) -> Path:
        """The virtual environment; it may be a link to a folder on a larger disk."""
        return self.root / VENVS[self.engine]

    @property
    def python(self) -> Path:
        """The virtual environment's interpreter."""
        return self.venv / "bin" / "python"

    @property
    def aside(self) -> Path:
        """What an installation needs beside the virtual environment: its log, its lock, pip's temporary files."""
        return self.root / f"{VENVS[self.engine]}-setup"

    @property
    def log(self) -> Path:
        """Everything that pip said in the last installation."""
        return self.aside / "install.log"

    @property
    def temporary(self) -> Path:
        """Temporary files of pip, on the disk that was found large enough."""
        return self.aside / "tmp"

    def requirements(self, name: str) -> Path:
        """A lock file."""
        return self.root / "requirements" / f"{name}.txt"
