"""Arithmetic in a data file: numbers, names, + - * / //, and ceil, min, max, pow2. Nothing else can be written."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping

_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}


def pow2(x: float) -> int:
    """The smallest power of two that is not below x, and 1 at least."""
    return 1 << max(0, math.ceil(x) - 1).bit_length()


_FUNCTIONS: dict[str, Callable[..., float]] = {"ceil": math.ceil, "min": min, "max": max, "pow2": pow2}


def evaluate(text: str | float, names: Mapping[str, float]) -> float:
    """The value of an expression. Raises ValueError with what cannot be understood."""
    if isinstance(text, int | float):
        return text
    try:
        return _value(ast.parse(text, mode="eval").body, names)
    except (SyntaxError, ZeroDivisionError, TypeError) as error:
        raise ValueError(f"{text}: {error}") from error


def _value(node: ast.expr, names: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, names), _value(right, names))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_value(argument, names) for argument in arguments))
    known = ", ".join(sorted(names))
    raise ValueError(f"{ast.unparse(node)} is no number, operation, or one of {known}")
