"""The receipt: what a run was made of and how it went, enough to check it and to start the same again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from toolkit.errors import CheckFailedError, ConfigurationError
from toolkit.runs.atomic import write_text
from toolkit.runs.packages import Package
from toolkit.runs.secrets import left_out, without_secrets

RECEIPT_SCHEMA = 1
LATER = frozenset({"capacity", "findings", "workers"})
"""Fields that receipts of this schema did not have at first."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended, or `running` while it has not."""

    result: str
    """`running`, `stopped`, `interrupted` or `failed`."""
    exit_code: int | None = None
    reason: str = ""


@dataclass(frozen=True)
class Receipt:
    """One run. All of it is plain data, so that it can be written, read and compared without the code that made it."""

    run: str
    toolkit: str
    """The toolkit's version."""
    created: str
    """UTC, ISO 8601."""
    recipe: str
    config: Mapping[str, Any]
    """The resolved configuration: composing it again gives the same plan."""
    plan: Mapping[str, Any]
    argv: Sequence[str]
    env: Mapping[str, str]
    """Everything that the engine's processes saw."""
    dropped: Sequence[str]
    """Names of the shell's variables that the engine did not see."""
    machine: Mapping[str, Any]
    files: Mapping[str, Any]
    """The served folder: path, view digest, index digest, and bytes of each file."""
    packages: Mapping[str, Package] = field(default_factory=dict)
    """The engine's environment, by distribution."""
    timings: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each phase in order."""
    answer: Mapping[str, Any] | None = None
    """The first answer."""
    capacity: Mapping[str, Any] | None = None
    """The KV cache as the engine reported it, and how many blocks it is from the plan; None before the start."""
    findings: Sequence[Mapping[str, Any]] = ()
    """What was found after the start, as in the plan's own findings."""
    workers: Sequence[Mapping[str, Any]] = ()
    """What each worker reports of itself (worker_report.py)."""
    outcome: Outcome = Outcome("running")


def to_json(receipt: Receipt, secrets: frozenset[str]) -> dict[str, Any]:
    """The receipt as plain data without secrets (schema RECEIPT_SCHEMA)."""
    clean: dict[str, Any] = without_secrets(asdict(receipt), secrets)
    return {"schema": RECEIPT_SCHEMA, **clean, "left_out": list(left_out(clean))}


def write(receipt: Receipt, path: Path, secrets: frozenset[str]) -> None:
    """Write a receipt, or replace it as the run goes on."""
    write_text(path, json.dumps(to_json(receipt, secrets), indent=1, default=str) + "\n")


def load(path: Path) -> Receipt:
    """A receipt from a file.

    Raises:
        ConfigurationError: there is no such file, or it is a receipt of another schema.
        CheckFailedError: the file is damaged.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        fix = "set receipt=FILE to the receipt.json in a run's folder"
        raise ConfigurationError(
            "the receipt cannot be read", where=str(path), why=str(error.strerror), fix=fix
        ) from error
    except ValueError as error:
        raise _damaged(path, f"it is not JSON: {error}") from error
    if not isinstance(data, dict) or "schema" not in data:
        raise _damaged(path, "it has no schema version")
    if data["schema"] != RECEIPT_SCHEMA:
        raise ConfigurationError(
            f"the receipt has schema {data['schema']}, and this toolkit reads schema {RECEIPT_SCHEMA}",
            where=str(path),
            fix=f"replay it with the toolkit that wrote it, version {data.get('toolkit', 'unknown')}",
        )
    return _from_json(path, data)


def as_written(receipt: Receipt, secrets: frozenset[str]) -> Receipt:
    """The receipt as it would be read back: plain data without secrets, fit to be compared with a recorded one."""
    return _from_json(Path(), json.loads(json.dumps(to_json(receipt, secrets), default=str)))


def _from_json(path: Path, data: dict[str, Any]) -> Receipt:
    names = {entry.name for entry in fields(Receipt)}
    if absent := sorted(names - data.keys() - LATER):
        raise _damaged(path, f"it lacks {', '.join(absent)}")
    try:
        packages = {name: Package(**entry) for name, entry in data["packages"].items()}
        values = {name: data[name] for name in names & data.keys()}
        if not isinstance(values["config"], dict) or not isinstance(values["machine"], dict):
            raise TypeError("config and machine must be objects")
        return Receipt(**{**values, "packages": packages, "outcome": Outcome(**data["outcome"])})
    except (TypeError, AttributeError) as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, why: str) -> CheckFailedError:
    return CheckFailedError("the receipt is damaged", where=str(path), why=why, fix="take it from a backup")
