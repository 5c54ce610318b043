"""The combinations of a sweep, each as a command line of its own, split as Hydra splits them.

Hydra itself composes all of them before the first runs, so that one wrong value would keep every other from being seen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from toolkit.config.command_line import CommandLine
from toolkit.config.hydra_errors import explain
from toolkit.config.one_job import search_path_of


def combinations(line: CommandLine, schema: type[Any]) -> tuple[CommandLine, ...]:
    """One command line for each combination of the values given. Raises ConfigurationError where it cannot be read."""
    from hydra._internal.config_loader_impl import ConfigLoaderImpl
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        parser = OverridesParser.create(config_loader=ConfigLoaderImpl(search_path_of(line)))
        (jobs,) = BasicSweeper.split_arguments(parser.parse_overrides(list(line.overrides)), None)
    except (HydraException, ValueError) as error:
        raise explain(error, schema) from error
    return tuple(replace(line, overrides=tuple(overrides)) for overrides in jobs)
