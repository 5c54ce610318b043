"""A change of any rule's condition is noticed by the rule's own cases: see mutate.py, which takes seconds in all."""

import mutate
import pytest

from toolkit.planning.rules.registry import MODULES


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_every_change_of_a_condition_is_noticed(module):
    left = [line for rule in module.RULES for line in mutate.survivors(rule, module)]
    assert [line for line in left if line not in mutate.SURVIVORS] == []


def test_the_survivors_are_still_survivors():
    left = {line for module in MODULES for rule in module.RULES for line in mutate.survivors(rule, module)}
    assert set(mutate.SURVIVORS) <= left
    assert all(mutate.SURVIVORS.values())


def test_mutants_are_made_of_every_kind():
    """On a function that has one of each, so that a walk that finds nothing is found out."""
    import ast

    source = (
        "def f(a, b):\n    if not a and b < 3:\n        return 1\n    return a in b if a is None else (a == b) != 0\n"
    )
    tree = ast.parse(source).body[0]
    made = {description.partition(": ")[2] for description, _ in mutate.mutants(tree)}
    assert {
        "not a -> a",
        "not a and b < 3 -> not a or b < 3",
        "b < 3 -> b <= 3",
        "b < 3 -> b >= 3",
        "3 -> 4",
        "3 -> 2",
        "1 -> 2",
        "1 -> 0",
        "a in b -> a not in b",
        "a is None -> a is not None",
        "a == b -> a != b",
        "0 -> 1",
        "0 -> -1",
    } <= made
    assert mutate.other_values((1, 2)) is not None
    assert [value for _, value in mutate.other_values((1, 5))] == [(2, 5), (1, 6), (0, 5), (1, 4)]
