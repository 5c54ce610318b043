"""Defines upstream's operator names in this process, in the place of the libraries that would."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

from toolkit.native import library
from toolkit.plugin.operators import schemas
from toolkit.plugin.operators.schemas import Schema
from toolkit.plugin.operators.states import Kind, State, state_of

DEVICES = ("CUDA", "CPU")


@dataclass(frozen=True)
class Definitions:
    """What was defined; it must live as long as the process."""

    libraries: tuple[Any, ...]
    """torch's library objects: the names vanish with them."""
    called: set[str]
    """Our operators that upstream's code has called in this process, by upstream's name."""


@cache
def define_upstream_operators() -> Definitions:
    """Define all names, once in a process.

    Needs torch.ops.volta. Raises RuntimeError if upstream's own library has defined them before.
    """
    import torch

    called: set[str] = set()
    every = schemas.read()
    libraries: dict[str, Any] = {
        name: torch.library.Library(name, "DEF")  # type: ignore[no-untyped-call]
        for name in sorted({each.namespace for each in every})
    }
    for schema in every:
        target = libraries[schema.namespace]
        target.define(schema.definition)
        _implement(target, schema, state_of(schema), called)
    return Definitions(tuple(libraries.values()), called)


def missing_operators() -> tuple[str, ...]:
    """Operators of ours that the plugin needs and the loaded library has not, as a stale one."""
    import torch

    return tuple(sorted(name for name in {*_borrowed(), *library.OPERATORS} if not hasattr(torch.ops.volta, name)))


def changed_operators() -> tuple[str, ...]:
    """Operators under upstream's names that the loaded library has with other arguments than upstream's."""
    import torch

    parsed = {name: torch._C.parse_schema(f"volta::{each.definition}") for name, each in _borrowed().items()}
    ours = {name: getattr(torch.ops.volta, name).default._schema for name in parsed}
    return tuple(sorted(name for name in parsed if _arguments(parsed[name]) != _arguments(ours[name])))


def _borrowed() -> dict[str, Schema]:
    """Upstream's operators that are ours, by name."""
    return {each.name: each for each in schemas.read() if state_of(each).kind is Kind.native}


def _arguments(schema: Any) -> list[tuple[Any, ...]]:
    """What a caller passes and gets; how an alias is named does not count."""
    passed = [(each.name, str(each.type), each.default_value, each.kwarg_only) for each in schema.arguments]
    return [*passed, *((str(each.type),) for each in schema.returns)]


def _implement(target: Any, schema: Schema, state: State, called: set[str]) -> None:
    """Ours on the devices that it knows; fixed answers and refusals whatever the arguments are."""
    if state.kind is Kind.native:
        function = _noting(schema.qualified, called, _ours(schema))
        for device in DEVICES:
            target.impl(schema.name, function, device)
    elif state.kind is Kind.answer:
        target.impl(schema.name, _answering(state.answer), "CompositeExplicitAutograd")
    else:
        target.impl(schema.name, _refusing(schema, state), "CompositeExplicitAutograd")


def _ours(schema: Schema) -> Callable[..., Any]:
    import torch

    ours: Callable[..., Any] = getattr(torch.ops.volta, schema.name).default
    return ours


def _noting(name: str, called: set[str], function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which also notes that it was called: that is what the worker's report shows."""

    def noted(*arguments: Any, **options: Any) -> Any:
        called.add(name)
        return function(*arguments, **options)

    return noted


def _answering(answer: object) -> Callable[..., object]:
    def constant(*_arguments: object, **_options: object) -> object:
        return answer

    return constant


def _refusing(schema: Schema, state: State) -> Callable[..., NoReturn]:
    def refuse(*_arguments: object, **_options: object) -> NoReturn:
        raise NotImplementedError(f"{schema.qualified} is {state.kind.value} on SM70: {state.note}")

    return refuse
