"""Reading the engine's log while it grows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

TAIL_BYTES = 1 << 20


class LogFollower:
    """Complete lines as they are appended to a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""

    def new_lines(self) -> list[str]:
        """The lines that were completed since the last call; a progress bar's redraws count as lines."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                chunk = file.read()
        except FileNotFoundError:
            return []
        self._offset += len(chunk)
        *lines, self._rest = (self._rest + chunk).replace(b"\r", b"\n").split(b"\n")
        return [text for line in lines if (text := line.decode(errors="replace").rstrip())]


def tail(path: Path, lines: int) -> list[str]:
    """The last lines of a log; empty where there is none."""
    return read_end(path).splitlines()[-lines:]


def read_end(path: Path) -> str:
    """The last TAIL_BYTES of a log as text."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


def all_lines(path: Path) -> Iterator[str]:
    """Every line of a log, read one at a time; none where there is no log."""
    with suppress(FileNotFoundError), path.open(encoding="utf-8", errors="replace") as file:
        yield from file
