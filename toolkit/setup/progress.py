"""A line on stderr for each phase of an installation; stdout belongs to the command that follows."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from toolkit.counted import counted


def say(text: str) -> None:
    """One line to the person in front."""
    sys.stderr.write(f"quickstart: {text}\n")
    sys.stderr.flush()


class Progress:
    """Numbers the phases and times them. On a terminal the running phase is shown too, and counts what pip finds."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._number = 0
        self._found = 0
        self._title = ""

    @contextmanager
    def phase(self, title: str) -> Iterator[None]:
        """Show a phase, and its time when it has worked."""
        self._number += 1
        self._found = 0
        self._title = f"quickstart: [{self._number}/{self._total}] {title}"
        self._draw(self._title)
        start = time.monotonic()
        try:
            yield
        except BaseException:
            self._draw(f"{self._title}: not done\n")
            raise
        self._draw(f"{self._title}: {time.monotonic() - start:.0f} s\n")

    def heard(self, line: str) -> None:
        """Take note of a line that pip said."""
        if line.startswith("Collecting "):
            self._found += 1
            self._draw(f"{self._title}: {self._packages()} found")
        elif download := re.match(r"\s*Downloading ([^-\s]+-[^-\s]+)\S* (\(.*\))", line):
            self._draw(f"{self._title}: {self._packages()} found, downloading {' '.join(download.groups())}")
        elif line.startswith("Installing collected packages"):
            self._draw(f"{self._title}: unpacking {self._packages()}")
        elif line.startswith("WARNING: Retrying"):
            self._draw(f"{self._title}: the package index does not answer, asking again")

    def _packages(self) -> str:
        return counted(self._found, "package")

    def _draw(self, text: str) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{text}")
        elif text.endswith("\n"):
            sys.stderr.write(text)
        sys.stderr.flush()
