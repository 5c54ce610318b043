"""Proof that the cases of each rule notice a change of its condition.

`python tests/planning/rules/mutate.py [RULE...]`: each rule's check, and the functions and numbers of its module that
it uses, are changed in one place at a time: a comparison, `and` for `or`, a `not` or a condition turned around, a whole
number by one. The rule's own cases then have to fail. A change that no case notices is a survivor; SURVIVORS names
those that cannot be noticed, each with the reason.

Findings that planning makes by itself (rules/computed.py) are put to the same test, by the functions that make them:
computed_cases.
"""

from __future__ import annotations

import ast
import copy
import inspect
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1]), str(Path(__file__).parents[3])]

from rule_sets import CASES, SEVERITIES

from toolkit.planning.plan import Finding, Severity
from toolkit.planning.rules.registry import MODULES
from toolkit.planning.rules.rule import Context, Rule

COMPARISONS = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
APART = "a difference of less than two blocks is not told"
ROUNDED = "sizes are told in GiB with two digits, and compared in bytes"
SURVIVORS: dict[str, str] = {
    "planning/memory/fits.py: GIB = 1073741825": ROUNDED,
    "planning/memory/fits.py: GIB = 1073741823": ROUNDED,
    "planning/capacity/engine_log.py: _difference: apart > 0 -> apart >= 0": APART,
    "planning/capacity/engine_log.py: _difference: 0 -> 1": APART,
    "planning/capacity/engine_log.py: _difference: 0 -> -1": APART,
    "planning/memory/fits.py: _share: 0 -> 1": "a byte is no hundredth of any GPU",
    "planning/memory/fits.py: _profiled: 0 -> 1": f"no block is of one byte, and {ROUNDED}",
}
"""A mutant as it is printed, and why no case can tell it from the rule."""


def mutants(tree: ast.FunctionDef) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Copies of a function with one change each, and what was changed."""
    for number, node in enumerate(ast.walk(tree)):
        for change in _changes(node):
            made = copy.deepcopy(tree)
            spot = next(other for at, other in enumerate(ast.walk(made)) if at == number)
            before = ast.unparse(spot)
            replacement = change(spot)
            if replacement is not spot:
                made = _Put(spot, replacement).visit(made)
            yield f"{tree.name}: {before} -> {ast.unparse(replacement)}", ast.fix_missing_locations(made)


class _Put(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else self.generic_visit(node)


def _changes(node: ast.AST) -> Iterator[Callable[[Any], ast.AST]]:
    """Each a function from the node's copy to what takes its place."""
    match node:
        case ast.Compare(ops=ops):
            for place, operator in enumerate(ops):
                yield from (partial(_operator, place=place, other=other) for other in COMPARISONS[type(operator)])
        case ast.BoolOp(op=operator):
            yield partial(_bool, other=ast.Or if isinstance(operator, ast.And) else ast.And)
        case ast.UnaryOp(op=ast.Not()):
            yield attrgetter("operand")
        case ast.If() | ast.IfExp():
            yield _negate_test
        case ast.Constant(value=value) if type(value) is int:
            yield lambda spot: ast.Constant(spot.value + 1)
            yield lambda spot: ast.Constant(spot.value - 1)


def _operator(spot: ast.Compare, place: int, other: type[ast.cmpop]) -> ast.Compare:
    spot.ops[place] = other()
    return spot


def _bool(spot: ast.BoolOp, other: type[ast.boolop]) -> ast.BoolOp:
    spot.op = other()
    return spot


def _negate_test(spot: ast.If | ast.IfExp) -> ast.If | ast.IfExp:
    spot.test = ast.UnaryOp(ast.Not(), spot.test)
    return spot


Space = Mapping[str, Any]
"""A module's names, some of them changed."""


@dataclass(frozen=True)
class Subject:
    """Functions of one module, and what they have to say in each case."""

    id: str
    module: ModuleType
    roots: tuple[str, ...]
    """The functions that are called; those of the module that they call are changed as well."""
    cases: Sequence[tuple[Callable[[Space], list[Any]], list[Any]]]
    """Findings, and whatever else a case is told by."""
    beside: tuple[str, ...] = ()
    """Functions that they call and that make no finding."""


def subject_of(rule: Rule, module: ModuleType) -> Subject:
    """A rule with its cases."""
    name = rule.check.__name__

    def run(context: Context, space: Space) -> list[Finding]:
        return list(replace(rule, check=space[name]).findings(context))

    contexts = [
        (partial(run, Context(case.config, case.recipe, case.checkpoint, case.machine)), _expected(case, rule))
        for case in CASES
        if case.rule == rule.id
    ]
    return Subject(rule.id, module, (name,), contexts)


def functions_of(subject: Subject) -> list[str]:
    """The subject's functions and what they call of their own module, by name."""
    module, found, waiting = subject.module, [], list(subject.roots)
    while waiting:
        name = waiting.pop()
        function = getattr(module, name, None)
        if (
            name in (*found, *subject.beside)
            or not inspect.isfunction(function)
            or function.__module__ != module.__name__
        ):
            continue
        found.append(name)
        tree = ast.parse(inspect.getsource(function))
        waiting += [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    return found


def survivors(subject: Subject) -> Iterator[str]:
    """Mutants that the subject's cases do not notice."""
    for description, changes in all_mutants(subject):
        if not _noticed(subject, changes):
            yield f"{subject.id}: {description}"


def all_mutants(subject: Subject) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What is changed, and the changed code or number by its name in the module."""
    for name in functions_of(subject):
        tree = ast.parse(inspect.getsource(getattr(subject.module, name))).body[0]
        assert isinstance(tree, ast.FunctionDef)
        yield from ((description, {name: _compiled(mutant)}) for description, mutant in mutants(tree))
    for name, value in constants_of(subject):
        yield from ((f"{name} = {description}", {name: mutant}) for description, mutant in other_values(value))


def constants_of(subject: Subject) -> Iterator[tuple[str, Any]]:
    """Numbers of the module that the subject's functions read, alone or in a tuple, by name."""
    names = {
        node.id
        for name in functions_of(subject)
        for node in ast.walk(ast.parse(inspect.getsource(getattr(subject.module, name))))
        if isinstance(node, ast.Name)
    }
    for name in sorted(names):
        value = vars(subject.module).get(name)
        if type(value) is int or (isinstance(value, tuple) and value and all(type(item) is int for item in value)):
            yield name, value


def other_values(value: Any) -> Iterator[tuple[str, Any]]:
    """The same with one number one more or one less."""
    for step in (1, -1):
        if isinstance(value, int):
            yield str(value + step), value + step
        else:
            for place in range(len(value)):
                other = (*value[:place], value[place] + step, *value[place + 1 :])
                yield str(other), other


def _compiled(mutant: ast.FunctionDef) -> types.CodeType:
    module = compile(ast.Module([mutant], []), f"<{mutant.name}>", "exec")
    return next(code for code in module.co_consts if isinstance(code, types.CodeType) and code.co_name == mutant.name)


def _noticed(subject: Subject, changes: Mapping[str, Any]) -> bool:
    """Whether some case fails, by another answer or by an error, with the changes in the module's place."""
    space = dict(vars(subject.module))
    for name in functions_of(subject):
        function = getattr(subject.module, name)
        code = changes.get(name, function.__code__)
        space[name] = types.FunctionType(code, space, name, function.__defaults__, function.__closure__)
    space |= {name: value for name, value in changes.items() if not isinstance(value, types.CodeType)}
    for run, expected in subject.cases:
        try:
            if run(space) != expected:
                return True
        except Exception:  # noqa: BLE001 - a mutant may fail in any way
            return True
    return False


def _expected(case, rule: Rule) -> list[Finding]:
    if case.says is None:
        return []
    where, message, fix = case.says
    severity = Severity.unchecked if case.unchecked else SEVERITIES.get(rule.id, Severity.refuse)
    return [Finding(rule.id, severity, where, message, fix)]


def main() -> None:
    """Print the survivors; exit code 1 where one is not known."""
    from computed_cases import subjects

    wanted = set(sys.argv[1:])
    rules = [subject_of(rule, module) for module in MODULES for rule in module.RULES]
    with TemporaryDirectory() as folder:
        chosen = [subject for subject in (*rules, *subjects(Path(folder))) if not wanted or subject.id in wanted]
        tried = sum(1 for subject in chosen for _ in all_mutants(subject))
        left = [line for subject in chosen for line in survivors(subject)]
    for line in left:
        print(f"{'known: ' if line in SURVIVORS else ''}{line}")
    known = sum(line in SURVIVORS for line in left)
    print(f"{len(chosen)} rules, {tried} mutants, {len(left)} survivors, {known} of them known")
    sys.exit(len(left) > known)


if __name__ == "__main__":
    main()
