"""The file that marks a folder as a view of ours, and records what it was made of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from toolkit.views.plain import checked, inside

MARKER_FILE = ".volta-view.json"
MARKER_SCHEMA = 1


@dataclass(frozen=True)
class LinkedFile:
    """A file of the base."""

    path: str
    method: str
    """`symlink`, `reflink` or `copy`."""
    target: str
    """What the symbolic link says; for another method, what it would say."""
    size: int
    """Bytes."""
    mtime_ns: int
    """Of the base's file when the view was made."""
    sha256: str | None
    """As far as it was known."""


@dataclass(frozen=True)
class FreshFile:
    """A file that only the view has."""

    path: str
    size: int
    """Bytes."""
    sha256: str


@dataclass(frozen=True)
class Marker:
    """A view as it was made."""

    name: str
    digest: str
    base: str
    """The base's folder."""
    links: tuple[LinkedFile, ...]
    fresh: tuple[FreshFile, ...]
    made_from: Mapping[str, Any]
    """What is needed to make it again (`inputs.ViewInputs`)."""

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of all files but the marker itself."""
        return (*(link.path for link in self.links), *(file.path for file in self.fresh))

    def to_bytes(self) -> bytes:
        """The marker file's content; ASCII, so that names of any bytes survive."""
        return (json.dumps({"schema": MARKER_SCHEMA, **asdict(self)}, ensure_ascii=True) + "\n").encode()


def read_marker(folder: Path) -> Marker | None:
    """The marker of a view; None where there is none, or none that can be read."""
    try:
        data = json.loads((folder / MARKER_FILE).read_bytes())
        if data.pop("schema") != MARKER_SCHEMA:
            return None
        links = tuple(LinkedFile(**checked(LinkedFile, link)) for link in data["links"])
        fresh = tuple(FreshFile(**checked(FreshFile, file)) for file in data["fresh"])
        for path in (*(link.path for link in links), *(file.path for file in fresh)):
            inside(path)
        return Marker(**{**checked(Marker, data), "links": links, "fresh": fresh})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
