"""What becomes of one job of a sweep, and of several together."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from toolkit.config.composed import Composed, checked
from toolkit.errors import ToolkitError
from toolkit.streams import tell

if TYPE_CHECKING:
    from omegaconf import DictConfig

Root = TypeVar("Root")
BUG = 1


class Sweep(Protocol[Root]):
    """What a verb does with `-m` whose jobs make one result together."""

    def job(self, composed: Composed[Root]) -> int:
        """Do one combination, and return its exit code."""

    def failed(self, overrides: Sequence[str], error: ToolkitError) -> None:
        """Take note of a combination that ended in an error, which was printed already."""

    def end(self) -> None:
        """Say what all of them came to."""


def run_job(
    job: DictConfig, schema: type[Root], task: Callable[[Composed[Root]], int], sweep: Sweep[Root] | None
) -> int:
    """One job of a sweep: whatever happens in it, the others still run."""
    from omegaconf.errors import OmegaConfBaseException

    from toolkit.config.hydra_errors import explain
    from toolkit.config.services import composition_of_job

    overrides: Sequence[str] = ()
    try:
        composition = composition_of_job(job)
        overrides = composition.overrides
        composed = checked(composition, schema)
        return task(composed) if sweep is None else sweep.job(composed)
    except (ToolkitError, OmegaConfBaseException) as error:
        said = error if isinstance(error, ToolkitError) else explain(error, schema)
        if sweep is not None:
            sweep.failed(overrides, said)
        return told(said)
    except BrokenPipeError:
        raise
    except Exception:  # noqa: BLE001 - a bug of ours in one job; its traceback is shown
        traceback.print_exc()
        return BUG


def told(error: ToolkitError) -> int:
    """Print an error, and return the exit code that it ends with."""
    tell(f"error: {error}")
    return error.exit_code
