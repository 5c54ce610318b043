"""What Hydra composed, and from which files; how Hydra is set up for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.config.safety import read_values_only

if TYPE_CHECKING:
    from omegaconf import DictConfig

VERSION_BASE = "1.3"


@dataclass(frozen=True)
class Merged:
    """One file that took part, as Hydra placed it."""

    config_path: str
    """Relative to a folder of the search path, without the suffix, such as `kv/fp8_e4m3`."""
    package: str
    """Where its values went: `kv`, or empty for the root."""


@dataclass(frozen=True)
class Composition:
    """What Hydra composed, and from what."""

    values: DictConfig
    merged: tuple[Merged, ...]
    """In the order of merging: the last to set a key wins."""
    folders: tuple[Path, ...]
    """The search path: the shipped folder, then the user's."""
    choices: dict[str, Any]
    """Option by group."""
    overrides: tuple[str, ...]


def prepare(name: str, schema: type[Any]) -> None:
    """Give Hydra the verb's schema, and take from it what a file must not use."""
    from hydra.core.config_store import ConfigStore
    from omegaconf import OmegaConf

    read_values_only()
    OmegaConf.clear_resolver("oc.env")  # a file must not bring the shell's secrets into a receipt
    ConfigStore.instance().store(name=f"{name}_schema", node=schema)


def settings_of_hydra(node: type[Any]) -> None:
    """What Hydra takes as its own settings from now on."""
    from hydra.core.config_store import ConfigStore

    ConfigStore.instance().store(group="hydra", name="config", node=node, provider="hydra")


def composition_of(values: DictConfig, hydra: Any, defaults: Any) -> Composition:
    """Gather a composition.

    values: without Hydra's own node. hydra: that node. defaults: Hydra's list of the files that it merged.
    """
    return Composition(
        values=values,
        merged=tuple(Merged(default.config_path, default.package or "") for default in defaults),
        folders=tuple(Path(source.path) for source in hydra.runtime.config_sources if source.schema == "file"),
        choices=dict(hydra.runtime.choices),
        overrides=tuple(as_typed(hydra.overrides.task)),
    )


def as_typed(overrides: Any) -> list[str]:
    """Hydra's list of overrides; reading it item by item would resolve the `${...}` in them."""
    from omegaconf import OmegaConf

    plain = OmegaConf.to_container(overrides, resolve=False)
    return [str(override) for override in plain] if isinstance(plain, list) else []
