"""Where a checkpoint's config.json is not what the recipe declares of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from toolkit.checkpoint.facts import CheckpointFacts

_OTHER_NAME = {"torch_dtype": "dtype", "dtype": "torch_dtype"}
"""config.json's key for the weights' dtype was renamed; either one says it."""


@dataclass(frozen=True)
class Difference:
    """One declared key whose value is another one in config.json."""

    key: str
    """Dotted, such as rope_parameters.rope_theta."""
    declared: Any
    actual: Any
    """None where config.json does not have the key."""

    def __str__(self) -> str:
        actual = "absent" if self.actual is None else repr(self.actual)
        return f"{self.key} is declared as {self.declared!r}, config.json has {actual}"


def declared_differences(facts: CheckpointFacts, declared: Mapping[str, Any]) -> tuple[Difference, ...]:
    """The declared keys that config.json contradicts or lacks; none where the files are not here."""
    return tuple(_differences("", declared, facts.config)) if facts.present else ()


def _differences(prefix: str, declared: Mapping[str, Any], actual: Mapping[str, Any]) -> Iterator[Difference]:
    for key, value in declared.items():
        found = actual.get(key, actual.get(_OTHER_NAME.get(key, key)))
        if isinstance(value, Mapping) and isinstance(found, Mapping):
            yield from _differences(f"{prefix}{key}.", value, found)
        elif found != value:
            yield Difference(f"{prefix}{key}", value, found)
