"""Typed reading of a config.json: an absent key or a wrong type is an error that names the key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from toolkit.config.whole_numbers import LARGEST
from toolkit.errors import ConfigurationError

T = TypeVar("T")
LONGEST_SHOWN = 120
"""Characters of a wrong value that an error repeats."""


class Keys:
    """One JSON object; `where` names it in errors, such as `config.json` or `config.json: text_config`."""

    def __init__(self, data: Mapping[str, Any], where: str = "config.json") -> None:
        self.data = data
        self.where = where
        self.read: set[str] = set()
        """The keys that were asked for."""

    def has(self, name: str) -> bool:
        """Say whether the key is there and not null."""
        self.read.add(name)
        return self.data.get(name) is not None

    def integer(self, name: str, default: int | None = None, at_most: int = LARGEST) -> int:
        """Read a whole number that is not negative; `at_most` bounds one that the planner counts up to."""
        value = self._value(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.wrong(name, "a whole number, zero or more", value)
        if value > at_most:
            raise self.wrong(name, f"{at_most} at most", value)
        return value

    def positive(self, name: str, default: int | None = None, at_most: int = LARGEST) -> int:
        """Read a whole number of at least 1."""
        value = self.integer(name, default, at_most)
        if value < 1:
            raise self.wrong(name, "a whole number of at least 1", value)
        return value

    def optional_integer(self, name: str) -> int | None:
        """Read a whole number, or None where the key is absent or null."""
        return self.integer(name) if self.has(name) else None

    def boolean(self, name: str, default: bool) -> bool:
        """Read true or false."""
        value = self._value(name, default)
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false", value)
        return value

    def text(self, name: str, default: str | None = None) -> str:
        """Read a string."""
        value = self._value(name, default)
        if not isinstance(value, str):
            raise self.wrong(name, "text", value)
        return value

    def optional_text(self, name: str) -> str | None:
        """Read a string, or None where the key is absent or null."""
        return self.text(name) if self.has(name) else None

    def texts(self, name: str) -> tuple[str, ...]:
        """Read a list of strings; empty where the key is absent or null."""
        return self._list(name, str, "a list of texts")

    def integers(self, name: str) -> tuple[int, ...]:
        """Read a list of whole numbers; empty where the key is absent or null."""
        found = self._list(name, int, "a list of whole numbers")
        for item in found:
            if item > LARGEST:
                raise self.wrong(name, f"a list of numbers of {LARGEST:,} at most", item)
        return found

    def child(self, name: str) -> Keys | None:
        """Read a nested object, or None where the key is absent or null."""
        self.read.add(name)
        value = self.data.get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.wrong(name, "an object", value)
        return Keys(value, f"{self.where}: {name}")

    def wrong(self, name: str, expected: str, value: object) -> ConfigurationError:
        """Make the error for a key whose value is not what it should be."""
        shown = repr(value) if len(repr(value)) <= LONGEST_SHOWN else f"{repr(value)[:LONGEST_SHOWN]}..."
        return ConfigurationError(
            f"The key '{name}' of the model's configuration must be {expected}, not {shown}.",
            where=self.where,
            fix="use the config.json that was published with the checkpoint",
        )

    def _value(self, name: str, default: object) -> object:
        self.read.add(name)
        value = self.data.get(name)
        if value is not None:
            return value
        if default is None:
            raise ConfigurationError(
                f"The model's configuration has no key '{name}'.",
                where=self.where,
                why="planning needs it, and nothing else in the file says it",
                fix="use the config.json that was published with the checkpoint, or declare the key in the recipe's "
                "checkpoint.declared",
            )
        return default

    def _list(self, name: str, kind: type[T], expected: str) -> tuple[T, ...]:
        self.read.add(name)
        value = self.data.get(name)
        if value is None:
            return ()
        is_list = isinstance(value, Sequence) and not isinstance(value, str)
        if not is_list or not all(isinstance(item, kind) and not isinstance(item, bool) for item in value):
            raise self.wrong(name, expected, value)
        return tuple(value)
