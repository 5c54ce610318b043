"""Composing a verb's configuration with Hydra, without letting Hydra act on what it composed."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from toolkit.config.command_line import CommandLine, typed_so_far
from toolkit.config.safety import read_values_only
from toolkit.config.search_path import shipped_conf

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


def compose_once(name: str, line: CommandLine) -> Composition:
    """The composition of one job."""
    from hydra import version
    from hydra._internal.config_loader_impl import ConfigLoaderImpl
    from hydra._internal.utils import create_config_search_path
    from hydra.core.config_search_path import SearchPathQuery
    from hydra.core.utils import JobRuntime, setup_globals
    from hydra.types import RunMode

    class Loader(ConfigLoaderImpl):
        """Hydra's loader, which also keeps the list of files that it merges: to compute it anew takes as long again."""

        defaults: Any = ()

        def _compose_config_from_defaults_list(self, defaults: Any, repo: Any) -> DictConfig:
            self.defaults = defaults
            return super()._compose_config_from_defaults_list(defaults, repo)

    version.setbase(VERSION_BASE)
    setup_globals()
    JobRuntime.instance().set("name", name)
    search_path = create_config_search_path(str(shipped_conf()))
    if line.config_dir is not None:
        search_path.prepend("command-line", f"file://{line.config_dir}", SearchPathQuery(provider="schema"))
    loader = Loader(search_path)
    composed = loader.load_configuration(line.config_name or name, list(line.overrides), RunMode.RUN)
    return _composition(composed, composed.hydra, loader.defaults)


def composition_of_job(values: DictConfig) -> Composition:
    """The composition of the job that Hydra is running now."""
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    hydra = HydraConfig.get()
    overrides = [*_as_typed(hydra.overrides.hydra), *_as_typed(hydra.overrides.task)]
    loader = GlobalHydra.instance().config_loader()
    return _composition(
        values, hydra, loader.compute_defaults_list(hydra.job.config_name, overrides, RunMode.RUN).defaults
    )


def _composition(values: DictConfig, hydra: Any, defaults: Any) -> Composition:
    from omegaconf import OmegaConf

    return Composition(
        values=OmegaConf.masked_copy(values, [str(key) for key in values if key != "hydra"]),
        merged=tuple(Merged(default.config_path, default.package or "") for default in defaults),
        folders=tuple(Path(source.path) for source in hydra.runtime.config_sources if source.schema == "file"),
        choices=dict(hydra.runtime.choices),
        overrides=tuple(_as_typed(hydra.overrides.task)),
    )


def _as_typed(overrides: Any) -> list[str]:
    """Hydra's list of overrides; reading it item by item would resolve the `${...}` in them."""
    from omegaconf import OmegaConf

    plain = OmegaConf.to_container(overrides, resolve=False)
    return [str(override) for override in plain] if isinstance(plain, list) else []


def let_hydra(name: str, line: CommandLine, job: Callable[[DictConfig], None]) -> None:
    """Let Hydra itself do what was asked for: a sweep, `--cfg`, `--info`, `--help`, shell completion."""
    from hydra import version
    from hydra._internal.utils import _run_hydra, get_args_parser

    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises instead of printing and leaving with 1
    version.setbase(VERSION_BASE)
    line.parsed.overrides.append(f"hydra.job.name={name}")
    if line.parsed.shell_completion and "COMP_LINE" in os.environ:
        os.environ["COMP_LINE"], folder = typed_so_far(os.environ["COMP_LINE"], shipped_conf())
        line.parsed.config_dir = line.parsed.config_dir or folder
    with TemporaryDirectory() as scratch:  # for multirun.yaml: a read-only verb leaves nothing behind
        if line.parsed.multirun:
            line.parsed.overrides.append(f"hydra.sweep.dir='{scratch}'")
        _run_hydra(line.parsed, get_args_parser(), job, str(shipped_conf()), line.config_name or name)
