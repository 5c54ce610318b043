"""Starting a recorded run again: its configuration, and what differs on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from toolkit.config.composed import Composed
from toolkit.config.paths import user_path
from toolkit.config.provenance import COMMAND_LINE
from toolkit.config.schema.verbs import ServeConfig
from toolkit.config.strict import free_mapping, known_keys, strict
from toolkit.errors import ConfigurationError
from toolkit.runs import receipt as receipts
from toolkit.runs.differences import Difference, differences
from toolkit.runs.receipt import Receipt, as_written
from toolkit.runs.secrets import left_out
from toolkit.serving.carry_out import Later
from toolkit.serving.session import Session

OF_THIS_CALL = ("output", "until", "dry_run", "runs", "receipt")
"""Options that say how to run the verb now, and never come from a receipt."""


def replayed(composed: Composed[ServeConfig], recorded: Receipt) -> Composed[ServeConfig]:
    """The recorded configuration, with what this command line sets itself laid over it.

    Raises:
        ConfigurationError: a value was left out as a secret and is not set now, or the configuration does not fit.
    """
    values = dict(recorded.config)
    here = [*OF_THIS_CALL, *_set_here(composed)]
    for key in here:
        _put(values, key, _get(composed.values, key))
    if secret := sorted(left_out(values)):
        raise ConfigurationError(
            f"the receipt holds no value for {', '.join(secret)}",
            where=str(composed.config.receipt),
            why="secrets are left out of receipts",
            fix="set it again: " + " ".join(f"{_plus(key)}{key}=VALUE" for key in secret),
        )
    origins = dict.fromkeys(composed.origins, f"receipt: {composed.config.receipt}")
    origins |= {key: origin for key, origin in composed.origins.items() if origin.startswith(COMMAND_LINE)}
    return replace(composed, config=strict(values, ServeConfig), values=values, recipe=recorded.recipe, origins=origins)


def recorded_run(composed: Composed[ServeConfig]) -> Receipt | None:
    """The receipt that the command line names, if it names one.

    Raises:
        ConfigurationError, CheckFailedError: as in receipts.load; also where a recipe is named beside it.
    """
    if composed.config.receipt is None:
        return None
    if composed.recipe:
        raise ConfigurationError(
            "a receipt and a recipe were both given",
            where=f"receipt={composed.config.receipt} +recipe={composed.recipe}",
            why="the receipt holds a complete configuration of its own",
            fix="leave out +recipe, and override single values after receipt=",
        )
    return receipts.load(user_path(composed.config.receipt, "receipt"))


def differs_from(recorded: Receipt | None, session: Session, packages: Later) -> tuple[Difference, ...]:
    """What of this run is not as it was recorded; nothing where nothing is replayed."""
    if recorded is None:
        return ()
    packages.begin()
    here = replace(session.receipt, packages=packages.result())
    return differences(recorded, as_written(here, session.secrets))


def _set_here(composed: Composed[ServeConfig]) -> Iterator[str]:
    """Keys and groups that this command line sets."""
    for override in composed.overrides:
        key = override.lstrip("+").partition("=")[0]
        if not key.startswith("~"):
            yield key


def _get(values: Mapping[str, Any], key: str) -> Any:
    for part in key.split("."):
        values = values[part]
    return values


def _put(values: dict[str, Any], key: str, value: Any) -> None:
    group, _, rest = key.partition(".")
    if not rest:
        values[group] = value
        return
    values[group] = dict(values.get(group) or {})
    _put(values[group], rest, value)


def _plus(key: str) -> str:
    """Hydra's sign for what is added: a key of a free mapping is not there before it is set."""
    return "+" if free_mapping(key, tuple(known_keys(ServeConfig))) else ""
