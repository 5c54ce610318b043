"""Strict composition: a key that no schema knows is an error, however it came in.

Hydra accepts `+limits.max_modle_len=1` even where the group has a schema, so the keys of what it composed are compared
with the schema's once more (`docs/config.md`, section 'Strictness').
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_type_hints

from toolkit.config.whole_numbers import LARGEST, too_large
from toolkit.config.wrong_values import mend
from toolkit.errors import ConfigurationError

if TYPE_CHECKING:
    from omegaconf import DictConfig

Root = TypeVar("Root")


def strict(values: Mapping[str, Any], schema: type[Root]) -> Root:
    """Return plain values as an instance of `schema`.

    Raises ConfigurationError for an unknown key (with close matches), a missing value, a wrong type or a number
    that 64 bits do not hold.
    """
    from omegaconf import OmegaConf

    refuse_unknown(values, schema)
    refuse_too_large(values)
    with _explained():
        return _instance(OmegaConf.merge(OmegaConf.structured(schema), OmegaConf.create(dict(values))), schema)


def strict_composed(composed: DictConfig, schema: type[Root]) -> Root:
    """The same for what Hydra composed, which mostly has the schema's types already; checking them twice takes long."""
    from omegaconf import OmegaConf

    plain = cast("dict[str, Any]", OmegaConf.to_container(composed, resolve=False))
    if OmegaConf.get_type(composed) is not schema:
        return strict(plain, schema)
    refuse_unknown(plain, schema)
    refuse_too_large(plain)
    with _explained():
        return _instance(composed, schema)


def refuse_unknown(values: Mapping[str, Any], schema: type[Any]) -> None:
    """Raise ConfigurationError for a key that the schema does not have."""
    known = tuple(known_keys(schema))
    for key in unknown_keys(values, schema):
        raise ConfigurationError(
            f"unknown option '{key}'", where="configuration", why=_neighbours(key, known), fix=suggestion(key, known)
        )


def refuse_too_large(values: Mapping[str, Any]) -> None:
    """Raise ConfigurationError for a whole number that 64 bits do not hold."""
    for key in too_large(values):
        raise ConfigurationError(
            f"wrong value for '{key}'",
            where="configuration",
            why="it is beyond the numbers that machines count with",
            fix=f"{LARGEST:,} is the largest that is read",
        )


def _instance(typed: Any, _: type[Root]) -> Root:
    from omegaconf import OmegaConf

    for key in sorted(map(str, OmegaConf.missing_keys(typed))):
        raise ConfigurationError(
            f"no value for '{key}'", where="configuration", fix=f"set it on the command line: {key}=VALUE"
        )
    return cast("Root", OmegaConf.to_object(typed))


@contextmanager
def _explained() -> Iterator[None]:
    from omegaconf.errors import InterpolationKeyError, OmegaConfBaseException

    try:
        yield
    except InterpolationKeyError:
        raise  # explained with the command line's other mistakes
    except OmegaConfBaseException as error:
        key, why = error.full_key or "configuration", str(error.msg or error).splitlines()[0]
        raise ConfigurationError(f"wrong value for '{key}'", why=why, fix=mend(key, why)) from error


def known_keys(schema: type[Any], prefix: str = "") -> Iterator[str]:
    """Every leaf key of a schema, dotted; a free mapping counts as one leaf."""
    hints = get_type_hints(schema)
    for field in fields(schema):
        key, kind = prefix + field.name, hints[field.name]
        if is_dataclass(kind):
            yield from known_keys(cast("type[Any]", kind), key + ".")
        else:
            yield key


def unknown_keys(values: Mapping[str, Any], schema: type[Any], prefix: str = "") -> Iterator[str]:
    """Keys of nested plain values that the schema does not have, dotted."""
    hints = get_type_hints(schema)
    names = {field.name for field in fields(schema)}
    for name, value in values.items():
        if name not in names:
            yield f"{prefix}{name}"
        elif is_dataclass(hints[name]) and isinstance(value, Mapping):
            yield from unknown_keys(value, cast("type[Any]", hints[name]), f"{prefix}{name}.")


def suggestion(key: str, known: tuple[str, ...]) -> str:
    """What the user may have meant: a close spelling in the same group or anywhere, or the same last word elsewhere."""
    group, _, last = key.rpartition(".")
    siblings = {name.rpartition(".")[2]: name for name in known if name.rpartition(".")[0] == group}
    meant = [siblings[word] for word in close_matches(last, siblings)] or close_matches(key, known)
    meant += [name for name in known if name.rpartition(".")[2] == last and name not in meant]
    return f"did you mean {' or '.join(meant[:3])}?" if meant else "see docs/config.md for every option"


def close_matches(word: str, known: Iterable[str]) -> list[str]:
    """Known words that are spelled much like it, nearest first; the merely similar are left out beside a near miss."""
    ratios = {name: difflib.SequenceMatcher(None, word, name).ratio() for name in known}
    best = max(ratios.values(), default=0.0)
    close = [name for name, ratio in ratios.items() if ratio >= 0.6 and ratio > best - 0.1]
    return sorted(close, key=lambda name: (-ratios[name], name))[:3]


def _neighbours(key: str, known: tuple[str, ...]) -> str:
    group = key.rpartition(".")[0]
    siblings = [name for name in known if name.rpartition(".")[0] == group]
    return f"{group} has: {', '.join(name.rpartition('.')[2] for name in siblings)}" if group and siblings else ""


def free_mapping(key: str, known: tuple[str, ...]) -> str | None:
    """The known mapping that a key lies inside, such as engine.environment for engine.environment.OMP_NUM_THREADS."""
    return next((name for name in known if key.startswith(name + ".")), None)
