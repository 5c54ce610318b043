"""What the engine's workers should report of themselves: part of the plan, which a run is held against."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.machine.facts import MachineFacts


@dataclass(frozen=True)
class ImportFolders:
    """Where the engine's processes may import from."""

    standard: tuple[str, ...]
    """The standard library; installed packages that lie below it do not count to it."""
    packages: tuple[str, ...]
    added: tuple[str, ...]
    """Those that engine.environment.PYTHONPATH names."""
    toolkit: str | None
    """The checkout or folder that holds the toolkit, and nothing else that may be imported."""


@dataclass(frozen=True)
class ExpectedWorkers:
    """What each worker should say, as far as it is known before the start."""

    engine: str
    """`cpu` or `v100`."""
    imports: ImportFolders | None
    """None where the interpreter did not say; then no worker can pass."""
    silence: str = ""
    """Why it did not."""


def expected_workers(config: DeploymentConfig, machine: MachineFacts) -> ExpectedWorkers:
    """What follows for the workers from the configuration and the interpreter that serves."""
    found = machine.interpreter
    silence = machine.unread.get("interpreter", "nobody asked the interpreter where it imports from")
    imports = ImportFolders(found.standard, found.packages, found.added, found.toolkit) if found is not None else None
    return ExpectedWorkers(config.engine.name.value, imports, "" if imports else silence)
