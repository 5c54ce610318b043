"""Hydra's own services: sweeps, `--cfg`, `--info`, `--help` and shell completion."""

from __future__ import annotations

import logging
import os
from argparse import Namespace
from collections.abc import Callable, Sequence
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from toolkit.config.command_line import CommandLine, typed_so_far
from toolkit.config.composition import VERSION_BASE, Composition, as_typed, composition_of, settings_of_hydra
from toolkit.config.search_path import shipped_conf

if TYPE_CHECKING:
    from omegaconf import DictConfig

QUIET = (
    "hydra/job_logging=none",
    "hydra/hydra_logging=none",
    "hydra.output_subdir=null",
    "hydra.run.dir=.",
    "hydra.sweep.subdir=.",
)
"""Hydra's services leave no files behind: run folders are made by the verbs that need them."""


def let_hydra(name: str, line: CommandLine, job: Callable[[DictConfig], None], help_: Sequence[str]) -> None:
    """Let Hydra itself do what was asked for: a sweep, `--cfg`, `--info`, `--help`, shell completion.

    help_: the settings of what `--help` prints.
    """
    from hydra import version
    from hydra._internal.utils import _run_hydra, get_args_parser
    from hydra.conf import HydraConf

    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises instead of printing and leaving with 1
    logging.raiseExceptions = False  # `--info` is printed by logging, which complains at length of a closed pipe
    version.setbase(VERSION_BASE)
    settings_of_hydra(HydraConf)
    arguments = line.parsed
    with TemporaryDirectory() as scratch:  # for multirun.yaml: a read-only verb leaves nothing behind
        if arguments.shell_completion:
            _complete(arguments)
        else:
            ours = [*QUIET, *help_, f"hydra.sweep.dir='{scratch}'", f"hydra.job.name={name}"]
            arguments.overrides = [*ours, *arguments.overrides]
        _run_hydra(arguments, get_args_parser(), job, str(shipped_conf()), line.config_name or name)


def composition_of_job(values: DictConfig) -> Composition:
    """The composition of the job that Hydra is running now."""
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    hydra = HydraConfig.get()
    overrides = [*as_typed(hydra.overrides.hydra), *as_typed(hydra.overrides.task)]
    loader = GlobalHydra.instance().config_loader()
    return composition_of(
        values, hydra, loader.compute_defaults_list(hydra.job.config_name, overrides, RunMode.RUN).defaults
    )


def _complete(arguments: Namespace) -> None:
    """Let Hydra see the line that is to be completed as it can read it."""
    if "COMP_LINE" in os.environ:
        os.environ["COMP_LINE"], folder = typed_so_far(os.environ["COMP_LINE"], shipped_conf())
        arguments.config_dir = arguments.config_dir or folder
