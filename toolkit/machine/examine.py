"""Everything that can be known of a machine: what a plan needs, and what only a doctor asks for."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolkit.checkpoint.hub import hub_cache
from toolkit.checkpoint.store import Store
from toolkit.config.schema.checkpoint import SourceKind
from toolkit.machine.extensions import extensions
from toolkit.machine.facts import MachineFacts
from toolkit.machine.guard import CannotReadError, read_all
from toolkit.machine.interpreter import ask
from toolkit.machine.members import members
from toolkit.machine.native import native
from toolkit.machine.probe import probe
from toolkit.machine.software import software
from toolkit.machine.system import disks, docker, elsewhere


def examine(python: str, folders: Sequence[Path], ports: Iterable[tuple[str, int]] = ()) -> MachineFacts:
    """This machine as it is now.

    python: the interpreter that serves. folders: its import path; empty where it does not say. ports: see `probe`.
    """
    facts = probe(ports)

    def searched() -> Sequence[Path]:
        if not folders:
            raise CannotReadError(f"{python} does not say where it imports from")
        return tuple(dict.fromkeys(folders))  # one that is named twice holds one copy

    deep: Mapping[str, Callable[[], Any]] = {
        "disks": lambda: disks((*written_folders(), *elsewhere(map(Path, fetches_into().values()), written_folders()))),
        "fetches_into": fetches_into,
        "docker": docker,
        "software": lambda: software(python, searched()),
        "extensions": lambda: extensions(searched()),
        "members": lambda: members(searched()),
        "native": lambda: native(python),
        "interpreter": lambda: ask(python),
    }
    readings = read_all(deep)
    unread = {name: reading.reason for name, reading in readings.items() if reading.reason is not None}
    found = {name: reading.value for name, reading in readings.items()}
    return replace(facts, **found, unread={**facts.unread, **unread})


def fetches_into() -> dict[str, str]:
    """Where checkpoints are brought, by the kind of source; a local one stays where it is."""
    made = str(Store.at(None).root)
    kinds = {SourceKind.hub: str(hub_cache()), SourceKind.package: made, SourceKind.random: made}
    return {kind.value: folder for kind, folder in kinds.items()}


def written_folders() -> tuple[Path, ...]:
    """Where serving writes: caches and checkpoints, views and runs, and temporary files."""
    import platformdirs

    caches, data = platformdirs.user_cache_path(), platformdirs.user_data_path()
    return tuple(dict.fromkeys((caches, data, Path(tempfile.gettempdir()))))
