"""Strict reading of plain data as frozen dataclasses: a wrong type or an unknown key is an error with its place."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from toolkit.counted import counted

T = TypeVar("T")
NAMES = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


class DecodeError(ValueError):
    """Why plain data is not what its type says; `where` is the dotted place."""

    def __init__(self, where: str, message: str, fix: str = "") -> None:
        super().__init__(f"{where}: {message}")
        self.where = where
        self.message = message
        self.fix = fix


def decode(kind: type[T], value: Any, where: str) -> T:
    """Return `value` as an instance of the dataclass `kind`; what has a default may be absent. Raises DecodeError."""
    return cast("T", _decode(kind, value, where))


def _decode(kind: Any, value: Any, where: str) -> Any:
    if is_dataclass(kind):
        return _record(cast("type[Any]", kind), value, where)
    if isinstance(kind, UnionType):
        inner = next(part for part in get_args(kind) if part is not type(None))
        return None if value is None else _decode(inner, value, where)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple:
        return _tuple(arguments, value, where)
    if origin is frozenset:
        return frozenset(_decode(arguments[0], item, f"{where}[{at}]") for at, item in enumerate(_list(value, where)))
    if origin is Mapping:
        return {key: _decode(arguments[1], item, f"{where}.{key}") for key, item in _object(value, where).items()}
    if type(value) is not kind:  # True is an int to Python, and 1.0 is none
        raise _wrong(where, NAMES[kind], value)
    return value


def _record(kind: type[Any], value: Any, where: str) -> Any:
    data, hints = _object(value, where), get_type_hints(kind)
    known = {field.name: field for field in fields(kind)}
    for key in data:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            raise DecodeError(f"{where}.{key}", "there is no such fact", f"did you mean {near[0]}?" if near else "")
    for name, field in known.items():
        if name not in data and field.default is MISSING and field.default_factory is MISSING:
            raise DecodeError(f"{where}.{name}", "it is absent")
    return kind(**{name: _decode(hints[name], item, f"{where}.{name}") for name, item in data.items()})


def _tuple(arguments: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    items = _list(value, where)
    if arguments[-1] is Ellipsis:
        return tuple(_decode(arguments[0], item, f"{where}[{at}]") for at, item in enumerate(items))
    if len(items) != len(arguments):
        raise DecodeError(where, f"it must be a list of {counted(len(arguments), 'item')}, and has {len(items)}")
    pairs = zip(arguments, items, strict=True)
    return tuple(_decode(kind, item, f"{where}[{at}]") for at, (kind, item) in enumerate(pairs))


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong(where, "a list", value)
    return value


def _object(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(where, "an object", value)
    return value


def _wrong(where: str, expected: str, value: Any) -> DecodeError:
    shown = repr(value) if len(repr(value)) <= 40 else f"{repr(value)[:37]}..."
    return DecodeError(where, f"it must be {expected}, not {shown}")
