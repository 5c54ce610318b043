"""What every verb's command has in common: composition, errors in our words, exit codes."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import TYPE_CHECKING, TypeVar

from toolkit.config.composed import Composed, checked
from toolkit.errors import CheckFailedError, ToolkitError

if TYPE_CHECKING:
    from omegaconf import DictConfig

Root = TypeVar("Root")
BUG = 1


def run_verb(name: str, schema: type[Root], task: Callable[[Composed[Root]], int]) -> int:
    """Compose conf/NAME.yaml with the command line, run the task, and return the exit code.

    The task returns its own exit code. With `-m` it runs once for each combination, a job that fails does not keep
    the others from running, and the highest exit code is returned. A ToolkitError is printed without a traceback.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal without UTF-8 gets an escape, not a traceback
            stream.reconfigure(errors="backslashreplace")
    try:
        return _compose_and_run(name, schema, task)
    except ToolkitError as error:
        return _report(error)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader has gone, as with `| head`
        _drop_output()
        return 141


def say(text: str) -> None:
    """Print to standard output at once. Raises CheckFailedError where it cannot take it, such as a full disk."""
    with _writing():
        print(text, flush=True)


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _drop_output()
        why = error.strerror or str(error)
        raise CheckFailedError("the output cannot be written", where="standard output", why=why) from error


def _drop_output() -> None:
    """What is still buffered would raise once more when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(error: ToolkitError) -> int:
    print(f"error: {error}", file=sys.stderr, flush=True)
    return error.exit_code


def _compose_and_run(name: str, schema: type[Root], task: Callable[[Composed[Root]], int]) -> int:
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from toolkit.config.command_line import read_command_line
    from toolkit.config.composition import compose_once, let_hydra, prepare
    from toolkit.config.hydra_errors import explain
    from toolkit.config.search_path import shipped_conf

    line = read_command_line(sys.argv[1:], shipped_conf())
    prepare(name, schema)
    codes: list[int] = []
    try:
        if line.plain:
            composed = checked(compose_once(name, line), schema)
        else:
            with _writing():
                let_hydra(name, line, lambda job: codes.append(_job(job, schema, task)))
            return max(codes, default=0)
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        if line.parsed.shell_completion:
            return 0  # nothing to offer; a message would land in the line that is being typed
        raise explain(error, schema) from error
    return task(composed)


def _job(composed: DictConfig, schema: type[Root], task: Callable[[Composed[Root]], int]) -> int:
    """One job of a sweep: whatever happens in it, the others still run."""
    from omegaconf.errors import OmegaConfBaseException

    from toolkit.config.composition import composition_of_job
    from toolkit.config.hydra_errors import explain

    try:
        return task(checked(composition_of_job(composed), schema))
    except ToolkitError as error:
        return _report(error)
    except OmegaConfBaseException as error:
        return _report(explain(error, schema))
    except BrokenPipeError:
        raise
    except Exception:  # noqa: BLE001 - a bug of ours in one job; its traceback is shown
        traceback.print_exc()
        return BUG
