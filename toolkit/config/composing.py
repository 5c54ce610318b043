"""One job's composition from the command line to the checked configuration, with mistakes in our words."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from toolkit.config.composed import Composed, checked
from toolkit.errors import ConfigurationError

if TYPE_CHECKING:
    from toolkit.config.command_line import CommandLine

Root = TypeVar("Root")
CHOSEN = "+recipe="


def compose(name: str, schema: type[Root], line: CommandLine) -> Composed[Root]:
    """Compose conf/NAME.yaml with a command line, and check it. Raises ConfigurationError."""
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from toolkit.config.hydra_errors import explain
    from toolkit.config.one_job import compose_once

    try:
        return checked(compose_once(name, line), schema)
    except (HydraException, OmegaConfBaseException, ValueError, OverflowError) as error:
        raise explain(error, schema) from error


def compose_other(name: str, schema: type[Root], line: CommandLine, option: str, recipe: str) -> Composed[Root]:
    """The same command line with the recipe that `option` names, after it was composed as it is.

    Raises ConfigurationError that names the option: nobody typed the other recipe with `+recipe=`.
    """
    try:
        return compose(name, schema, line.with_recipe(recipe))
    except ConfigurationError as error:
        texts = (error.what, error.where, error.why, error.fix)
        what, where, why, fix = (text.replace(CHOSEN, f"{option}=") for text in texts)
        named = f"{option}={recipe}"
        where = where if named in where else f"{where}, with {named}"
        raise ConfigurationError(what, where=where, why=why, fix=fix) from error
