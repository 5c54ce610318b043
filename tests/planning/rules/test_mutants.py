"""A change of any rule's condition is noticed by the rule's own cases: see mutate.py, which takes seconds in all."""

import computed_cases
import mutate
import pytest

from toolkit.planning.plan import Finding
from toolkit.planning.rules.computed import COMPUTED
from toolkit.planning.rules.registry import MODULES


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_every_change_of_a_condition_is_noticed(module):
    left = [line for rule in module.RULES for line in mutate.survivors(mutate.subject_of(rule, module))]
    assert [line for line in left if line not in mutate.SURVIVORS] == []


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    """The functions that make findings beside the rules, with their cases."""
    return computed_cases.subjects(tmp_path_factory.mktemp("views"))


def test_what_planning_says_by_itself_is_as_its_cases_say(computed):
    for subject in computed:
        assert [run(vars(subject.module)) for run, _ in subject.cases] == [expected for _, expected in subject.cases]


def test_every_change_of_a_condition_of_planning_itself_is_noticed(computed):
    left = [line for subject in computed for line in mutate.survivors(subject)]
    assert [line for line in left if line not in mutate.SURVIVORS] == []


def test_every_computed_finding_has_a_case_or_a_reason(computed):
    """The list of those that have none is whole, and names none that has one."""
    said = {
        finding.rule
        for subject in computed
        for _, expected in subject.cases
        for finding in expected
        if isinstance(finding, Finding)
    }
    listed = {finding.id for finding in COMPUTED}
    assert said | computed_cases.EXEMPT.keys() == listed
    assert said.isdisjoint(computed_cases.EXEMPT)
    assert all(computed_cases.EXEMPT.values())


def test_the_survivors_are_still_survivors(computed):
    rules = (mutate.subject_of(rule, module) for module in MODULES for rule in module.RULES)
    left = {line for subject in (*rules, *computed) for line in mutate.survivors(subject)}
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
