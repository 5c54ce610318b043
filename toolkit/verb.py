"""What every verb's command has in common: composition, errors in our words, exit codes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from toolkit import __version__
from toolkit.config.composed import Composed
from toolkit.config.composing import compose
from toolkit.errors import ConfigurationError, ToolkitError
from toolkit.jobs import Sweep, run_job, run_sweep, told
from toolkit.streams import complete_streams, drop_output, say, writing

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from toolkit.config.command_line import CommandLine

Root = TypeVar("Root")
LIBRARIES = frozenset({"hydra", "omegaconf", "antlr4", "yaml", "platformdirs", "rich"})
"""What the verbs themselves are made of; `./quickstart` installs them."""
SIGNALLED = 128
"""A job that a signal stopped returns this and the signal's number."""


class _SweepStoppedError(BaseException):
    """A signal stopped a job: the user wants no further one. Not an Exception, which Hydra would keep for later."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def run_verb(
    name: str, schema: type[Root], task: Callable[[Composed[Root]], int], sweep: Sweep[Root] | None = None
) -> int:
    """Compose conf/NAME.yaml with the command line, run the task, and return the exit code.

    The task returns its own exit code. With `-m` it runs once for each combination, or `sweep` takes its place; a job
    that fails does not keep the others from running, one that a signal stopped does, and the highest exit code is
    returned. A ToolkitError is printed without a traceback.
    """
    complete_streams()
    try:
        _see_folder()
        return _compose_and_run(name, schema, task, sweep)
    except ToolkitError as error:
        return told(error)
    except ModuleNotFoundError as error:
        if error.name not in LIBRARIES:
            raise
        return told(_outside_the_environment(name, error.name))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader has gone, as with `| head`
        drop_output()
        return 141


def _see_folder() -> None:
    try:
        Path.cwd()
    except OSError as error:
        raise ConfigurationError(
            "the folder that this was started in is gone", where="current folder", why=str(error.strerror), fix="cd /"
        ) from error


def _outside_the_environment(verb: str, library: str) -> ToolkitError:
    return ConfigurationError(
        f"this Python has no {library}, which the toolkit needs",
        where=sys.executable,
        why="./quickstart installs it into .venv, and this is another Python",
        fix=f"./quickstart {verb} ..., or `. .venv/bin/activate` first",
    )


def _command_line(verb: str, schema: type[Any]) -> CommandLine:
    """What was typed, with Hydra ready for it."""
    from toolkit.config.command_line import read_command_line
    from toolkit.config.composition import prepare
    from toolkit.config.schema.verbs import DeploymentConfig
    from toolkit.config.search_path import shipped_conf

    line = read_command_line(sys.argv[1:], shipped_conf())
    recipe = next((text for text in line.overrides if text.startswith("+recipe=")), None)
    if recipe and not issubclass(schema, DeploymentConfig):
        fix = f"leave it out; toolkit-{verb} --help lists the options"
        raise ConfigurationError(f"{verb} takes no recipe", where=recipe, fix=fix)
    prepare(verb, schema)
    return line


def _compose_and_run(
    name: str, schema: type[Root], task: Callable[[Composed[Root]], int], sweep: Sweep[Root] | None
) -> int:
    from toolkit.config.safety import import_nothing_from_here

    import_nothing_from_here()
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from toolkit.config.help import settings_of_help
    from toolkit.config.hydra_errors import explain
    from toolkit.config.services import let_hydra

    if "--version" in sys.argv[1:]:  # Hydra would tell its own
        say(f"volta-toolkit {__version__}")
        return 0
    line = _command_line(name, schema)
    codes: list[int] = []

    def one(job: DictConfig) -> None:
        codes.append(run_job(job, schema, task))
        if codes[-1] > SIGNALLED:
            raise _SweepStoppedError(codes[-1])

    if line.plain:
        return task(compose(name, schema, line))
    if line.sweeps and sweep is not None:
        return run_sweep(name, schema, line, sweep)
    try:
        with writing():
            let_hydra(name, line, one, settings_of_help(sys.modules[task.__module__].__doc__, schema))
    except _SweepStoppedError as stopped:
        return stopped.code
    except (HydraException, OmegaConfBaseException, ValueError, OverflowError) as error:
        if line.parsed.shell_completion:
            return 0  # nothing to offer; a message would land in the line that is being typed
        raise explain(error, schema) from error
    return max(codes, default=0)
