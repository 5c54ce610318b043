"""What every kind of source offers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from toolkit.checkpoint.progress import Progress
from toolkit.errors import ConfigurationError


class SourceFiles(Protocol):
    """A checkpoint's files, from one kind of source."""

    def find(self) -> Path | None:
        """The folder, if it is on this machine."""

    def missing(self) -> str:
        """Why it is not, and how to get it."""

    def declared(self) -> dict[str, Any]:
        """config.json as far as it is known without the files."""

    def get(self, progress: Progress) -> Path:
        """The folder, downloaded or made where it was not here; raises ToolkitError if that does not work."""


@contextmanager
def libraries(kind: str) -> Iterator[None]:
    """Where a library is not installed that this kind of source is read with, ConfigurationError says so."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("toolkit"):
            raise
        raise ConfigurationError(
            f"the Python package {error.name} is not installed",
            why=f"checkpoint.source.kind={kind} needs it",
            fix="run this in the environment that ./quickstart makes, or install requirements/cpu.txt with pip",
        ) from error


def needed(value: str | None, field: str, kind: str) -> str:
    """The value of checkpoint.source.FIELD; ConfigurationError where it is not set, as this kind needs it."""
    if not value:
        raise ConfigurationError(
            f"checkpoint.source.{field} is not set",
            why=f"checkpoint.source.kind={kind} needs it",
            fix=f"set checkpoint.source.{field}=...",
        )
    return value
