"""What every verb's command has in common: composition, errors in our words, exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import TypeVar

from toolkit.config.composed import Composed, from_hydra
from toolkit.errors import ToolkitError

Root = TypeVar("Root")
BUG = 1


def run_verb(name: str, schema: type[Root], task: Callable[[Composed[Root]], int]) -> int:
    """Compose conf/NAME.yaml with the command line, run the task, and return the exit code.

    The task returns its own exit code. With `-m` it runs once for each combination, a job that fails does not keep
    the others from running, and the highest exit code is returned. A ToolkitError is printed without a traceback.
    """
    try:
        return _compose_and_run(name, schema, task)
    except ToolkitError as error:
        return _report(error)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader has gone, as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _report(error: ToolkitError) -> int:
    print(f"error: {error}", file=sys.stderr, flush=True)
    return error.exit_code


def _compose_and_run(name: str, schema: type[Root], task: Callable[[Composed[Root]], int]) -> int:
    import hydra
    from hydra.core.config_store import ConfigStore
    from hydra.errors import HydraException
    from omegaconf import DictConfig, OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    from toolkit.config.command_line import MULTIRUN, quote_numbered_choices, sweep_flag_first
    from toolkit.config.hydra_errors import explain
    from toolkit.config.safety import refuse_code
    from toolkit.config.search_path import shipped_conf

    refuse_code(sys.argv[1:])
    sys.argv[1:] = quote_numbered_choices(sweep_flag_first(sys.argv[1:]), shipped_conf())
    OmegaConf.clear_resolver("oc.env")  # a recipe must not read the shell's secrets into a receipt
    ConfigStore.instance().store(name=f"{name}_schema", node=schema)
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # Hydra then raises instead of printing and leaving with 1
    codes: list[int] = []

    def job(composed: DictConfig) -> None:
        try:
            codes.append(task(from_hydra(composed, schema)))
        except ToolkitError as error:  # caught here, as Hydra would print a line of its own
            codes.append(_report(error))
        except OmegaConfBaseException as error:
            codes.append(_report(explain(error, schema)))

    try:
        with TemporaryDirectory() as scratch:  # Hydra writes multirun.yaml; a read-only verb leaves nothing behind
            if sys.argv[1:2] and sys.argv[1] in MULTIRUN:
                sys.argv.append(f"hydra.sweep.dir={scratch}")
            hydra.main(version_base="1.3", config_path=str(shipped_conf()), config_name=name)(job)()
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise explain(error, schema) from error
    return max(codes, default=0)
