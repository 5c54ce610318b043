"""Where things are in a checkout, and the requirement files of each set."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SETS = {"cpu": ("build", "cpu"), "test": ("build", "cpu", "test")}  # what a set installs, in this order


@dataclass(frozen=True)
class Place:
    """The paths that belong to one checkout."""

    root: Path

    @property
    def venv(self) -> Path:
        """The virtual environment; it may be a link to a folder on a larger disk."""
        return self.root / ".venv"

    @property
    def python(self) -> Path:
        """The virtual environment's interpreter."""
        return self.venv / "bin" / "python"

    @property
    def aside(self) -> Path:
        """What an installation needs beside the virtual environment: its log, its lock, pip's temporary files."""
        return self.root / ".venv-setup"

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
