"""The machine that a plan is checked against: a recorded one where a file is named, else this one."""

from __future__ import annotations

from collections.abc import Iterable

from toolkit.config.paths import user_path
from toolkit.machine import facts_file
from toolkit.machine.facts import MachineFacts
from toolkit.machine.probe import probe


def machine_facts(file: str | None, ports: Iterable[tuple[str, int]] = ()) -> MachineFacts:
    """The facts of a recorded machine, or of this one as it is now. Raises ConfigurationError for a bad file.

    ports: see `probe`; a recorded machine answers with what was busy when it was recorded.
    """
    return probe(ports) if file is None else recorded(file)


def recorded(file: str) -> MachineFacts:
    """The facts of a recorded machine. Raises ConfigurationError for a bad file."""
    return facts_file.read(user_path(file, "machine.facts_file"))
