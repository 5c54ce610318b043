"""JSON that is what it seems: UTF-8, no duplicate keys, no NaN; faults say where."""

from __future__ import annotations

import json
from typing import Any


class StrictJsonError(ValueError):
    """Why a text is no strict JSON; its message is part of a sentence: 'wrong JSON at line 3, column 5: ...'."""


def parse(data: bytes) -> Any:
    """The value of a JSON document; StrictJsonError says what is wrong with it."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise StrictJsonError(f"wrong JSON: byte {error.start} is no UTF-8") from None
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise StrictJsonError(f"wrong JSON at line {error.lineno}, column {error.colno}: {error.msg}") from None
    except StrictJsonError:
        raise
    except RecursionError:
        raise StrictJsonError("wrong JSON: nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits
        raise StrictJsonError(f"wrong JSON: {error}") from None


def parse_object(data: bytes) -> dict[str, Any]:
    """The same for a document that has to be an object."""
    value = parse(data)
    if not isinstance(value, dict):
        raise StrictJsonError(f"wrong JSON: an object is needed, this is {_kind(value)}")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise StrictJsonError(f"duplicate key {twice!r}")
    return unique


def _no_constant(constant: str) -> Any:
    raise StrictJsonError(f"wrong JSON: {constant} is no JSON number")


def _kind(value: Any) -> str:
    names = {list: "an array", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
