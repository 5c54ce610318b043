"""Hydra's and OmegaConf's complaints in our words: what, where, why and fix."""

from __future__ import annotations

import difflib
import re
from typing import Any

from toolkit.config.strict import known_keys, suggestion
from toolkit.errors import ConfigurationError

AMBIGUOUS_FP8 = (
    "fp8 does not say which of two formats is meant: E4M3 (more precision, wants calibrated scales) or "
    "E5M2 (more range, unit scales)"
)


def explain(error: Exception, schema: type[Any]) -> ConfigurationError:
    """Translate an exception that composition raised."""
    from hydra.errors import MissingConfigException, OverrideParseException

    if isinstance(error, MissingConfigException):
        return _missing_choice(error.missing_cfg_file, list(error.options or ()), str(error))
    if isinstance(error, OverrideParseException):
        return ConfigurationError(
            f"cannot read the override '{error.override}'",
            where="command line",
            why=_first_line(error.message),
            fix="write key=value; quote values with spaces or commas: 'key=\"a, b\"'",
        )
    return _from_cause(error) or _unknown_key(str(error), schema)


def _missing_choice(missing: str | None, options: list[str], text: str) -> ConfigurationError:
    group, _, choice = (missing or "").rpartition("/")
    if group == "kv" and choice == "fp8":
        return ConfigurationError(
            "kv=fp8 is ambiguous", where="kv", why=AMBIGUOUS_FP8, fix="write kv=fp8_e4m3 or kv=fp8_e5m2"
        )
    if not group:
        return ConfigurationError(_first_line(text), where="configuration")
    typed = f"+{group}" if group == "recipe" else group
    close = difflib.get_close_matches(choice, options, n=3, cutoff=0.5)
    listed = f"there are: {', '.join(options)}" if options else f"no folder on the search path has a group {group}"
    return ConfigurationError(
        f"there is no {group} named '{choice}'",
        where=f"{typed}={choice}",
        why=listed,
        fix=f"did you mean {' or '.join(f'{typed}={name}' for name in close)}?" if close else "",
    )


def _from_cause(error: Exception) -> ConfigurationError | None:
    """An override whose value does not fit, such as a word for a number."""
    override = re.match(r"Error merging override (.*)", str(error))
    if override is None:
        return None
    cause = _first_line(str(error.__cause__)) if error.__cause__ else ""
    return ConfigurationError(f"wrong value in '{override.group(1)}'", where="command line", why=cause)


def _unknown_key(text: str, schema: type[Any]) -> ConfigurationError:
    """A key outside the schema; Hydra's own advice (add `+`) would only hide the mistake."""
    known = tuple(known_keys(schema))
    found = re.search(r"Could not (?:override|append to config\.?|delete from config\.?) ?'?([\w.]*)", text)
    key = found.group(1) if found else ""
    if key == "recipe":
        return ConfigurationError(
            "a recipe is added, not overridden", where="command line", fix="write +recipe=NAME with the plus sign"
        )
    if not key:
        return ConfigurationError(_first_line(text), where="configuration")
    groups = sorted({name.partition(".")[0] for name in known})
    names = known if "." in key else (*groups, "recipe")
    return ConfigurationError(f"unknown option '{key}'", where="command line", fix=suggestion(key, names))


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
