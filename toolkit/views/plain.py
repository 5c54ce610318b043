"""Plain data that a file told, checked before it is used: a damaged or foreign file must not become a traceback."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import PurePosixPath
from typing import Any

_KINDS: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "str | None": (str, type(None)),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
}


def checked(kind: type, data: Any) -> dict[str, Any]:
    """The values of a dataclass's fields; TypeError where one is absent, foreign, or of another type than its field.

    Fields of other types than text and numbers are left to the caller.
    """
    if not isinstance(data, dict):
        raise TypeError("no object")
    expected = {field.name: str(field.type) for field in fields(kind)}
    if expected.keys() != data.keys():
        raise TypeError(f"other keys: {sorted(expected.keys() ^ data.keys())}")
    for name, value in data.items():
        wanted = _KINDS.get(expected[name])
        if wanted and (not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted)):
            raise TypeError(f"{name} is {type(value).__name__}")
    return data


def inside(path: str) -> str:
    """A file's path inside a folder, as it is; ValueError for one that leads out of it or that no file can have."""
    parts = PurePosixPath(path)
    if not path or "\0" in path or parts.is_absolute() or ".." in parts.parts or str(parts) != path:
        raise ValueError(f"{path!r} is no path inside a folder")
    return path
