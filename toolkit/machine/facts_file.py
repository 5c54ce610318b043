"""Recorded machine facts: a JSON file that stands in for probing, so that anyone can replay somebody's report.

The document is `{"schema": 1, "toolkit": VERSION, "machine": {...}}`, with MachineFacts' fields under `machine`.
`doctor output=json` holds it under `facts`, and its whole document is read as well.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from toolkit import __version__
from toolkit.checkpoint.strict_json import StrictJsonError, parse_object
from toolkit.config.whole_numbers import LARGEST
from toolkit.counted import counted
from toolkit.errors import ConfigurationError
from toolkit.machine.decode import DecodeError, decode
from toolkit.machine.facts import NO_LIMIT, MachineFacts

FACTS_SCHEMA = 1
LARGEST_BYTES = 16 * 2**20
RECORD = "record one with: python -m toolkit.doctor output=json > FILE"


def to_json(facts: MachineFacts) -> dict[str, Any]:
    """The document for one machine: plain data that `from_json` turns back into equal facts."""
    machine = json.loads(json.dumps(asdict(facts), default=sorted))  # frozensets become sorted lists
    return {"schema": FACTS_SCHEMA, "toolkit": __version__, "machine": machine}


def read(path: Path) -> MachineFacts:
    """The machine that a file describes. Raises ConfigurationError that says what is wrong with the file, and where."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            os.set_blocking(file.fileno(), True)  # waits for who writes into a pipe, and not for somebody to open it
            data = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(
            "the machine facts cannot be read", where=str(path), why=str(error.strerror), fix=RECORD
        ) from error
    if not data:
        raise _bad(path, "it is empty")
    if len(data) > LARGEST_BYTES:
        raise _bad(path, f"it has more than {LARGEST_BYTES >> 20} MiB, and a record takes a few KiB")
    try:
        return from_json(parse_object(data), path)
    except StrictJsonError as error:
        raise _bad(path, str(error)) from error


def from_json(document: dict[str, Any], path: Path) -> MachineFacts:
    """The machine of a parsed document; `path` names it in errors. Raises ConfigurationError."""
    if isinstance(document.get("facts"), dict):
        document = document["facts"]
    if "schema" not in document or "machine" not in document:
        raise _bad(path, "it has no 'schema' and 'machine'")
    if type(document["schema"]) is not int or document["schema"] != FACTS_SCHEMA:
        raise _bad(
            path,
            f"it has schema {document['schema']!r}, and this toolkit reads schema {FACTS_SCHEMA}",
            f"use the toolkit that wrote it, version {document.get('toolkit', 'unknown')}",
        )
    if strange := sorted(set(document) - {"schema", "toolkit", "machine"}):
        raise _bad(path, f"unknown key '{strange[0]}'")
    try:
        facts = decode(MachineFacts, document["machine"], "machine")
    except DecodeError as error:
        raise _bad(path, str(error), error.fix) from error
    for why in _impossible(document["machine"], "machine"):
        raise _bad(path, why)
    return facts


def _impossible(value: Any, where: str) -> Iterator[str]:
    """What is wrong with numbers that no count or size can be; a limit that is not set is NO_LIMIT."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _impossible(item, f"{where}.{key}")
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _impossible(item, f"{where}[{at}]")
    elif isinstance(value, int) and value < 0:
        unlimited = value == NO_LIMIT and where in ("machine.lockable_bytes", "machine.open_files")
        if not unlimited:
            yield f"{where}: {value} is less than nothing"
    elif isinstance(value, int) and value > LARGEST:
        yield f"{where}: a number of {counted(len(str(value)), 'digit')} is more than any machine counts to"


def _bad(path: Path, why: str, fix: str = "") -> ConfigurationError:
    return ConfigurationError("the file holds no machine facts", where=str(path), why=why, fix=fix or RECORD)
