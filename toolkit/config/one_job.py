"""One job's composition: Hydra's composition without Hydra's application, which would act on its own settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolkit.config.command_line import CommandLine
from toolkit.config.composition import VERSION_BASE, Composition, composition_of, settings_of_hydra
from toolkit.config.search_path import shipped_conf

if TYPE_CHECKING:
    from omegaconf import DictConfig

HYDRAS = ("hydra.", "hydra/")
"""Beginnings of overrides that only Hydra's services act on."""


def compose_once(name: str, line: CommandLine) -> Composition:
    """The composition of conf/NAME.yaml with a command line."""
    from hydra import version
    from hydra._internal.config_loader_impl import ConfigLoaderImpl
    from hydra.core.utils import JobRuntime, setup_globals
    from hydra.types import RunMode
    from omegaconf import open_dict

    class Loader(ConfigLoaderImpl):
        """Hydra's loader, which also keeps the list of files that it merges: to compute it anew takes as long again."""

        defaults: Any = ()

        def _compose_config_from_defaults_list(self, defaults: Any, repo: Any) -> DictConfig:
            self.defaults = defaults
            return super()._compose_config_from_defaults_list(defaults, repo)

    version.setbase(VERSION_BASE)
    setup_globals()
    JobRuntime.instance().set("name", name)
    _leave_out_hydras_files()
    loader = Loader(search_path_of(line))
    overrides = [override for override in line.overrides if not override.lstrip("+~").startswith(HYDRAS)]
    composed = loader.load_configuration(line.config_name or name, overrides, RunMode.RUN)
    hydra = composed.hydra
    with open_dict(composed):
        del composed["hydra"]
    return composition_of(composed, hydra, loader.defaults)


def _leave_out_hydras_files() -> None:
    from hydra.conf import HydraConf

    @dataclass
    class Unused(HydraConf):
        """Hydra's own settings without their files: nothing acts on them here, and reading them is half the work."""

        defaults: list[Any] = field(default_factory=list)

    settings_of_hydra(Unused)


def search_path_of(line: CommandLine) -> Any:
    """The shipped folder, the user's behind it, and last the schemas, as Hydra's own application has them."""
    from hydra._internal.utils import create_config_search_path
    from hydra.core.config_search_path import SearchPathQuery

    search_path = create_config_search_path(str(shipped_conf()))
    if line.config_dir is not None:
        search_path.prepend("command-line", f"file://{line.config_dir}", SearchPathQuery(provider="schema"))
    return search_path
