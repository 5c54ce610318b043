"""Every option with its type, default and documentation, read from the schema's own source."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum
from typing import Any, get_args, get_type_hints


@dataclass(frozen=True)
class Option:
    """One configuration value."""

    key: str
    """Dotted, such as `limits.max_model_len`."""
    kind: Any
    """The type as the dataclass declares it."""
    default: Any
    """The default value; None where there is none."""
    required: bool
    documentation: str
    metadata: Mapping[str, Any]


def options(schema: type[Any], prefix: str = "") -> Iterator[Option]:
    """The options of a schema, depth first, in the order of declaration."""
    hints, documentation = get_type_hints(schema), field_documentation(schema)
    for field in fields(schema):
        kind = hints[field.name]
        if is_dataclass(kind) and isinstance(kind, type):
            yield from options(kind, f"{prefix}{field.name}.")
        else:
            default = _default(field)
            required = default == "???"
            text = documentation.get(field.name, "")
            yield Option(prefix + field.name, kind, None if required else default, required, text, field.metadata)


def field_documentation(schema: type[Any]) -> dict[str, str]:
    """The string literal after each field, of the class and its dataclass bases."""
    found: dict[str, str] = {}
    for base in reversed(schema.__mro__):
        if is_dataclass(base):
            body = ast.parse(inspect.cleandoc(inspect.getsource(base))).body[0]
            found |= _literals(body) if isinstance(body, ast.ClassDef) else {}
    return found


def _literals(body: ast.ClassDef) -> dict[str, str]:
    found = {}
    for field, literal in zip(body.body, body.body[1:], strict=False):
        match field, literal:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = " ".join(text.split())
    return found


def _default(field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not MISSING else "???"


def type_name(kind: Any) -> str:
    """A type in a reader's words: `int`, `text or null`, `one of local, docker`."""
    arguments = get_args(kind)
    if type(None) in arguments:
        return f"{type_name(next(argument for argument in arguments if argument is not type(None)))} or null"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return f"one of {', '.join(str(member.value) for member in kind)}"
    origin = getattr(kind, "__origin__", None)
    if origin is list:
        return f"list of {type_name(arguments[0])}"
    if origin is dict:
        return "mapping"
    return {str: "text", int: "whole number", float: "number", bool: "true or false"}.get(kind, str(kind))
