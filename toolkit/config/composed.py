"""A verb's configuration after composition, with the origin of each value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from toolkit.config.provenance import origins
from toolkit.config.strict import known_keys, strict

Root = TypeVar("Root")


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


def from_hydra(composed: Any, schema: type[Root]) -> Composed[Root]:
    """Check what Hydra composed against the schema, inside a running Hydra job."""
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import OmegaConf

    values = OmegaConf.to_container(composed, resolve=True, enum_to_str=True)
    config = strict(values, schema)  # type: ignore[arg-type]
    runtime, overrides = HydraConfig.get().runtime, tuple(HydraConfig.get().overrides.task)
    choices = {str(group): str(choice) for group, choice in runtime.choices.items() if choice is not None}
    folders = [Path(source.path) for source in runtime.config_sources if source.schema == "file"]
    found = origins(choices, folders, overrides, tuple(known_keys(schema)))
    return Composed(config, values, found, choices.get("recipe", ""), overrides)  # type: ignore[arg-type]
