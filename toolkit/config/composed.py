"""A verb's configuration after composition, with the origin of each value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from toolkit.config.composition import Composition
from toolkit.config.provenance import origins
from toolkit.config.strict import known_keys, strict_composed
from toolkit.errors import ConfigurationError

Root = TypeVar("Root")
RESOLVER = re.compile(r"(?<!\\)\$\{\s*[\w.]+\s*:[^}]*\}?")


@dataclass(frozen=True)
class Composed(Generic[Root]):
    """What the user asked for."""

    config: Root
    values: Mapping[str, Any]
    """The same as plain data, for a receipt."""
    origins: Mapping[str, str]
    """Origin by dotted key."""
    recipe: str
    """The recipe's name; empty without one."""
    overrides: tuple[str, ...]


def checked(composition: Composition, schema: type[Root]) -> Composed[Root]:
    """Check what Hydra composed against the schema. Raises ConfigurationError."""
    from omegaconf import OmegaConf

    for key, text in resolvers(OmegaConf.to_container(composition.values, resolve=False)):
        raise ConfigurationError(
            f"'{text}' is refused",
            where=key,
            why="configuration holds values only; it reads neither the environment nor the clock nor files",
            fix="write the value itself",
        )
    config = strict_composed(composition.values, schema)
    values = OmegaConf.to_container(composition.values, resolve=True, enum_to_str=True)
    found = origins(composition, tuple(known_keys(schema)))
    recipe = str(composition.choices.get("recipe") or "").removesuffix(".yaml")
    return Composed(config, values, found, recipe, composition.overrides)  # type: ignore[arg-type]


def resolvers(values: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Values that call an OmegaConf resolver, such as `${oc.env:HOME}`, by dotted key; `${limits.x}` calls none."""
    if isinstance(values, Mapping):
        for name, value in values.items():
            yield from resolvers(value, f"{prefix}.{name}" if prefix else str(name))
    elif isinstance(values, list):
        for index, value in enumerate(values):
            yield from resolvers(value, f"{prefix}[{index}]")
    elif isinstance(values, str) and (found := RESOLVER.search(values)):
        yield prefix, found.group(0)
