"""What differs between a recorded run and this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from toolkit.runs.receipt import Receipt
from toolkit.runs.secrets import LEFT_OUT

CHANGING = {
    "available_bytes", "free_bytes", "shared_memory_bytes", "processes", "disks", "busy_ports", "executable",
    "environment", "index", "interpreter",
}  # fmt: skip
"""Facts of a machine that are another at every start, or that the plan shows elsewhere."""
OURS = {"VOLTA_RUN"}
ABSENT = "absent"


@dataclass(frozen=True)
class Difference:
    """One thing that is not as it was."""

    section: str
    """`toolkit`, `package`, `machine`, `file`, `argument` or `environment`."""
    name: str
    recorded: str
    here: str


def differences(recorded: Receipt, here: Receipt) -> tuple[Difference, ...]:
    """Every difference that could change what the server does or how fast; both receipts as they are written."""
    found = list(_compare("toolkit", {"version": recorded.toolkit}, {"version": here.toolkit}))
    found += _compare("package", _packages(recorded), _packages(here))
    found += _compare("machine", dict(_leaves(recorded.machine)), dict(_leaves(here.machine)))
    found += _compare("file", dict(_leaves(recorded.files)), dict(_leaves(here.files)))
    found += _compare("argument", _numbered(recorded), _numbered(here))
    found += _compare("environment", _environment(recorded), _environment(here))
    return tuple(found)


def _compare(section: str, recorded: Mapping[str, str], here: Mapping[str, str]) -> Iterator[Difference]:
    for name in [*recorded, *(name for name in here if name not in recorded)]:
        was, now = recorded.get(name, ABSENT), here.get(name, ABSENT)
        if was != now and LEFT_OUT not in was + now:
            yield Difference(section, name, was, now)


def _packages(receipt: Receipt) -> dict[str, str]:
    return {
        name: f"{package.version} (files {(package.files_sha256 or 'unrecorded')[:12]})"
        for name, package in receipt.packages.items()
    }


def _environment(receipt: Receipt) -> dict[str, str]:
    return {name: value for name, value in receipt.env.items() if name not in OURS}


def _numbered(receipt: Receipt) -> dict[str, str]:
    """Arguments by their flag, or by position where there is none."""
    named, flag = {}, ""
    for position, item in enumerate(receipt.argv):
        if item.startswith("--"):
            flag = item
            named[flag] = ""
        else:
            named[flag or f"[{position}]"] = item
            flag = ""
    return named


def _leaves(data: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Dotted key and text of every leaf; a list of plain values counts as one."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            if key not in CHANGING:
                yield from _leaves(value, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(data, (list, tuple)) and any(isinstance(item, (Mapping, list, tuple)) for item in data):
        for number, item in enumerate(data):
            yield from _leaves(item, f"{prefix}[{number}]")
    else:
        yield prefix, " ".join(map(str, data)) if isinstance(data, (list, tuple)) else str(data)
