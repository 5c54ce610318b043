"""What becomes of one job of a sweep, and of several together."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from toolkit.config.composed import Composed, checked
from toolkit.config.composing import compose
from toolkit.errors import ToolkitError
from toolkit.streams import tell

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from toolkit.config.command_line import CommandLine

Root = TypeVar("Root")
BUG = 1


class Sweep(Protocol[Root]):
    """What a verb does with `-m` whose jobs make one result together."""

    def job(self, composed: Composed[Root]) -> int:
        """Do one combination, and return its exit code."""

    def failed(self, overrides: Sequence[str], error: ToolkitError) -> None:
        """Take note of a combination that ended in an error, which is printed as well."""

    def end(self) -> None:
        """Say what all of them came to."""


def run_job(job: DictConfig, schema: type[Root], task: Callable[[Composed[Root]], int]) -> int:
    """One job of a sweep: whatever happens in it, the others still run."""
    from omegaconf.errors import OmegaConfBaseException

    from toolkit.config.hydra_errors import explain
    from toolkit.config.services import composition_of_job

    try:
        return task(checked(composition_of_job(job), schema))
    except ToolkitError as error:
        return told(error)
    except OmegaConfBaseException as error:
        return told(explain(error, schema))
    except BrokenPipeError:
        raise
    except Exception:  # noqa: BLE001 - a bug of ours in one job; its traceback is shown
        traceback.print_exc()
        return BUG


def run_sweep(name: str, schema: type[Root], line: CommandLine, sweep: Sweep[Root]) -> int:
    """All combinations of a command line as one result; the highest exit code of any.

    A mistake in one hides no other, and one that several share is printed once.
    """
    from toolkit.config.combinations import combinations

    codes, said = [], set()
    for one in combinations(line, schema):
        try:
            codes.append(sweep.job(compose(name, schema, one)))
        except ToolkitError as error:
            sweep.failed(one.overrides, error)
            codes.append(error.exit_code if str(error) in said else told(error))
            said.add(str(error))
        except BrokenPipeError:
            raise
        except Exception:  # noqa: BLE001 - as above
            traceback.print_exc()
            codes.append(BUG)
    sweep.end()
    return max(codes, default=0)


def told(error: ToolkitError) -> int:
    """Print an error, and return the exit code that it ends with."""
    tell(f"error: {error}")
    return error.exit_code
