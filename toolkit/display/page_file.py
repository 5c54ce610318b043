"""A page in the file that a user names, where it can be written and nobody else's file is lost."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from toolkit.config.paths import user_path
from toolkit.errors import ConfigurationError
from toolkit.storage.disk import replace_file

BEGINNING = b"<!DOCTYPE html>"
NAME = "plan.html"
PLAIN = re.compile(r"[\w./-]+")


def write_page(option: str, name: str, page: str) -> None:
    """Write a page of HTML; a page that is there is replaced in one step, and any other file is left as it is.

    option: the one that the file was named with, such as `html`.
    Raises ConfigurationError, whose fix is a file that can be written.
    """
    path = Path(name)
    try:
        path = Path(os.path.realpath(user_path(name, option)))
        fault = _fault(path) if name else "it names no file"
        if fault is None:
            replace_file(path, page.encode())
            return
    except OSError as error:
        fault = error.strerror or str(error)
    except ConfigurationError as error:
        fault = error.what
    raise ConfigurationError(
        "the page cannot be written", where=f"{option}={name}", why=fault, fix=_instead(option, path)
    )


def _fault(path: Path) -> str | None:
    """Why no page may take this place."""
    if path.is_dir():
        return "a folder has that name"
    if not path.exists():
        return "a link that leads nowhere has that name" if path.is_symlink() else None
    if not path.is_file():
        return "it is no regular file"
    with path.open("rb") as file:
        begin = file.read(len(BEGINNING))
    return None if begin in (BEGINNING, b"") else "there is a file that is no page of HTML, and it is left as it is"


def _instead(option: str, path: Path) -> str:
    for place in _places(path):
        if os.access(place.parent, os.W_OK | os.X_OK) and not os.path.lexists(place):
            return f"{option}={place}"
    return "output=html prints the page"


def _places(path: Path) -> Iterator[Path]:
    """Inside the folder that was named, in the current one, or where everybody may write; none that needs quotes."""
    name = path.name if path.suffix == ".html" else NAME
    everybodys = Path(os.environ.get("TMPDIR", "/tmp"))  # noqa: S108 - the user decides, and no name is guessed twice
    for place in (path / NAME, Path(name), everybodys / name, everybodys / f"plan-{os.getpid()}.html"):
        if PLAIN.fullmatch(str(place)):
            yield place
