"""Hydra's and OmegaConf's complaints in our words: what, where, why and fix."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from toolkit.config.search_path import shipped_conf
from toolkit.config.strict import close_matches, free_mapping, known_keys, suggestion
from toolkit.config.whole_numbers import LARGEST
from toolkit.config.wrong_values import mend
from toolkit.errors import ConfigurationError

AMBIGUOUS_FP8 = (
    "fp8 does not say which of two formats is meant: E4M3 (more precision, wants calibrated scales) or "
    "E5M2 (more range, unit scales)"
)
COMMAND_LINE = "command line"
UNKNOWN = ("ConfigKeyError", "ConfigAttributeError")


def explain(error: Exception, schema: type[Any]) -> ConfigurationError:
    """Translate an exception that composition raised."""
    from hydra.errors import MissingConfigException, OverrideParseException

    if isinstance(error, MissingConfigException):
        return _missing_choice(error.missing_cfg_file, list(error.options or ()), str(error))
    if isinstance(error, OverrideParseException):
        return _unreadable(error.override)
    known = tuple(known_keys(schema))
    text = _whole_text(error)
    for pattern, translate in KNOWN_TEXTS.items():
        found = re.search(pattern, text, re.DOTALL)
        if found is not None:
            return translate(found, known)
    return ConfigurationError(_first_line(text), where="configuration")


def _whole_text(error: BaseException) -> str:
    """The error's text, and those of its causes, of which Hydra's own wrapper often says nothing."""
    texts = []
    cause: BaseException | None = error
    while cause is not None:
        texts.append(str(getattr(cause, "msg", None) or cause))
        cause = cause.__cause__
    return "\n".join(text for text in texts if text.strip())


def _missing_choice(missing: str | None, options: list[str], text: str) -> ConfigurationError:
    group, _, choice = (missing or "").partition("/")
    if group == "kv" and choice == "fp8":
        return ConfigurationError(
            "kv=fp8 is ambiguous", where="kv", why=AMBIGUOUS_FP8, fix="write kv=fp8_e4m3 or kv=fp8_e5m2"
        )
    inside = re.match(r"In '([^']*)'", text)
    if not group or not options:
        return ConfigurationError(
            f"there is no configuration file '{missing}'", where=inside.group(1) if inside else COMMAND_LINE
        )
    typed = f"+{group}" if group == "recipe" else group
    close = close_matches(choice, options)
    meant = f"did you mean {' or '.join(f'{typed}={name}' for name in close)}?"
    return ConfigurationError(
        f"there is no {group} named '{choice}'",
        where=f"{typed}={choice}",
        why=f"there are: {', '.join(options)}",
        fix=meant if close else f"choose one of them, such as {typed}={options[0]}",
    )


def _unreadable(override: str) -> ConfigurationError:
    fix = "write key=value; quote values with spaces, commas or brackets: 'key=\"a, b\"'"
    if override in (path.stem for path in (shipped_conf() / "recipe").glob("*.yaml")):
        fix = f"did you mean +recipe={override}?"
    return ConfigurationError(f"cannot read '{override}'", where=COMMAND_LINE, fix=fix)


def _no_choice(_found: re.Match[str], _: tuple[str, ...]) -> ConfigurationError:
    return ConfigurationError(
        "a group's choice is the name of a file", where=COMMAND_LINE, fix="write GROUP=NAME, or GROUP.OPTION=VALUE"
    )


def _in_file(found: re.Match[str], known: tuple[str, ...]) -> ConfigurationError:
    """A key or a value of a file that the schema does not have."""
    file, kind, why, key = found.groups()
    if key.startswith("recipe.") and file.startswith("recipe/") and kind in UNKNOWN:
        return ConfigurationError(
            f"unknown option '{key}'", where=f"{file}.yaml", fix="begin the file with the line `# @package _global_`"
        )
    if kind in UNKNOWN:
        return ConfigurationError(f"unknown option '{key}'", where=f"{file}.yaml", fix=suggestion(key, known))
    why = _first_line(why)
    return ConfigurationError(f"wrong value for '{key}'", where=f"{file}.yaml", why=why, fix=mend(key, why))


def _several_values(found: re.Match[str], _: tuple[str, ...]) -> ConfigurationError:
    key, _equals, values = found.group(1).partition("=")
    return ConfigurationError(
        f"several values in '{found.group(1)}'",
        where=COMMAND_LINE,
        why="without -m an option has one value",
        fix=f"add -m for one job each, or quote a text with commas: \"{key}='{values}'\"",
    )


def _interpolation(found: re.Match[str], known: tuple[str, ...]) -> ConfigurationError:
    key = found.group(1)
    return ConfigurationError(f"'${{{key}}}' names no option", where="configuration", fix=suggestion(key, known))


def _already_chosen(found: re.Match[str], _: tuple[str, ...]) -> ConfigurationError:
    group, choice = found.groups()
    return ConfigurationError(
        f"{group} is already chosen",
        where="configuration",
        fix=f"on the command line write {group}={choice} without a plus sign; in a file, `override /{group}: {choice}`",
    )


def _override_last(found: re.Match[str], _: tuple[str, ...]) -> ConfigurationError:
    file, override, other = found.groups()
    return ConfigurationError(
        f"the override '{override}' stands before '{other}'",
        where=f"{file}.yaml",
        fix="put overrides at the end of the defaults list",
    )


def _not_forced(found: re.Match[str], _: tuple[str, ...]) -> ConfigurationError:
    plain = found.group(1).lstrip("+")
    typed = f"+{plain}" if plain.startswith("recipe=") else plain
    return ConfigurationError(f"'{found.group(1)}' has too many plus signs", where=COMMAND_LINE, fix=f"write {typed}")


def _already_there(found: re.Match[str], _: tuple[str, ...]) -> ConfigurationError:
    key = found.group(1)
    return ConfigurationError(
        f"'{key}' exists already", where=COMMAND_LINE, fix=f"write {key}=VALUE without the plus sign"
    )


def _no_deletion(found: re.Match[str], _: tuple[str, ...]) -> ConfigurationError:
    return ConfigurationError(
        f"'{found.group(1)}' cannot be taken away", where=COMMAND_LINE, fix="give the option another value instead"
    )


def _wrong_value(found: re.Match[str], _: tuple[str, ...]) -> ConfigurationError:
    override, why = found.group(1), _first_line(found.group(2))
    fix = mend(override.partition("=")[0].lstrip("+"), why)
    return ConfigurationError(f"wrong value in '{override}'", where=COMMAND_LINE, why=why, fix=fix)


def _too_large(found: re.Match[str], _: tuple[str, ...]) -> ConfigurationError:
    why = "it is beyond the numbers that machines count with"
    return ConfigurationError(f"wrong value for '{found.group(1)}'", where="configuration", why=why)


def _too_many_digits(_found: re.Match[str], _: tuple[str, ...]) -> ConfigurationError:
    why = f"it has thousands of digits, and {LARGEST:,} is the largest whole number that is read"
    return ConfigurationError("a number cannot be read", where="configuration", why=why)


def _relative_group(found: re.Match[str], known: tuple[str, ...]) -> ConfigurationError:
    """In a recipe, `override kv: X` means a group recipe/kv."""
    file, key = found.groups()
    group = key.partition("@")[0].rpartition("/")[2]
    groups = {name.partition(".")[0] for name in known}
    return ConfigurationError(
        f"the override of '{key}' has nothing to override",
        where=f"{file}.yaml",
        fix=f"write `override /{group}: NAME`, with the slash" if group in groups else suggestion(group, tuple(groups)),
    )


def _unknown_key(found: re.Match[str], known: tuple[str, ...]) -> ConfigurationError:
    """A key outside the schema; Hydra's own advice (add `+`) would only hide the mistake."""
    key = found.group(1)
    if key == "recipe":
        return ConfigurationError(
            "a recipe is added, not overridden", where=COMMAND_LINE, fix="write +recipe=NAME with the plus sign"
        )
    mapping = free_mapping(key, known)
    if mapping is not None:
        return ConfigurationError(
            f"'{mapping}' has no '{key.removeprefix(mapping + '.')}' yet",
            where=COMMAND_LINE,
            fix=f"add it with a plus sign: +{key}=VALUE",
        )
    groups = sorted({name.partition(".")[0] for name in known})
    if key in groups:
        return ConfigurationError(
            f"'{key}' cannot be changed in this way", where=COMMAND_LINE, fix=f"write {key}=NAME or {key}.OPTION=VALUE"
        )
    ending = tuple(name for name in known if name.endswith(f".{key}"))
    names = known if "." in key else ending or (*groups, "recipe")
    return ConfigurationError(f"unknown option '{key}'", where=COMMAND_LINE, fix=suggestion(key, names))


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


KNOWN_TEXTS: Mapping[str, Callable[[re.Match[str], tuple[str, ...]], ConfigurationError]] = {
    r"Ambiguous value for argument '(.*?)'\n": _several_values,
    r"Sweep parameters '(.*?)' requires --multirun": _several_values,
    r"Interpolation key '(.*?)' not found": _interpolation,
    r"Multiple values for ([\w/]+)\..*'override [\w/]+: (.*?)'": _already_chosen,
    r"force-add of config groups is not supported: '(.*?)'": _not_forced,
    r"An item is already at '(.*?)'": _already_there,
    r"In '(.*?)': (\w+) raised while composing config:\n(.*?)\n\s*full_key: (\S*)": _in_file,
    r"too large to convert to float\n\s*full_key: (\S+)": _too_large,
    r"Exceeds the limit \(\d+ digits\) for integer string conversion": _too_many_digits,
    r"Error merging override (~[^\n]*)": _no_deletion,
    r"Error merging override ([^\n]*)\n(.*)": _wrong_value,
    r"In ([^\n]*?): Override '(.*?)' is defined before '(.*?)'": _override_last,
    r"In '(.*?)': Could not override '(.*?)'": _relative_group,
    r"Key '[^']*' (?:is )?not in [^\n]*\n\s*full_key: (\S+)": _unknown_key,
    r"Could not (?:override|append to config\.?|delete from config\.?|delete) ?'?([\w.]+)": _unknown_key,
    r"Config group override must be a string or a list": _no_choice,
}
"""By what Hydra 1.3 and OmegaConf 2.3 write; the tests in tests/config meet each one."""
