"""Each rule against its cases; a rule without a case fails here."""

from pathlib import Path

import cases
import pytest
from rule_cases import CASES, SEVERITIES, Case, absent

from toolkit.planning.plan import Finding, Severity
from toolkit.planning.rules.registry import MEANINGLESS, RULES, check
from toolkit.planning.rules.rule import Context


def findings(case: Case) -> list[Finding]:
    return list(check(Context(case.config, case.recipe, case.checkpoint, case.machine)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{'breaks' if case.says else 'passes'}")
def test_what_a_rule_says(case):
    said = [finding for finding in findings(case) if finding.rule == case.rule]
    if case.says is None:
        assert said == []
    else:
        where, message, fix = case.says
        severity = SEVERITIES.get(case.rule, Severity.refuse)
        assert said == [Finding(case.rule, severity, where, message, fix)]


@pytest.mark.parametrize("rule", [rule.id for rule in RULES])
@pytest.mark.parametrize("breaks", [True, False])
def test_every_rule_has_both_kinds_of_case(rule, breaks):
    assert any(case.rule == rule and (case.says is not None) == breaks for case in CASES)


def test_no_case_is_left_of_a_rule_that_is_gone():
    assert {case.rule for case in CASES} == {rule.id for rule in RULES}


def test_rules_have_names_of_their_own_and_titles():
    assert len({rule.id for rule in RULES}) == len(RULES)
    assert all(rule.title for rule in RULES)
    assert {rule.id for rule in RULES} >= MEANINGLESS


def test_the_plain_deployments_pass_every_rule():
    assert findings(Case("", None, cases.config())) == []
    assert findings(Case("", None, cases.on_v100(), machine=cases.gpu_machine())) == []


def test_everything_wrong_is_said_at_once():
    spoiled = cases.on_v100(
        engine__dtype="bfloat16", kv__dtype="fp8", limits__tensor_parallel=5, server__port=0, checkpoint__name="a/b"
    )
    said = findings(Case("", None, spoiled, absent()))
    assert [finding.rule for finding in said] == [
        "checkpoint-not-here-yet",
        "model-name",
        "port-out-of-range",
        "kv-dtype-ambiguous",
        "bf16-on-sm70",
        "heads-not-divisible",
        "kv-heads-not-divisible",
        "no-gpu",
        "hardware-without-gpu",
    ]


def test_every_gpu_that_is_wrong_is_named():
    wrong = tuple(cases.v100(index, compute_capability=(8, 6)) for index in range(3))
    said = findings(Case("", None, cases.on_v100(limits__tensor_parallel=2), machine=cases.gpu_machine(gpus=wrong)))
    assert [finding.where for finding in said] == ["GPU 0", "GPU 1", "GPU 2"]


@pytest.mark.parametrize("finding", [case for case in CASES if case.says], ids=lambda case: case.rule)
def test_a_refusal_says_what_to_do(finding):
    where, message, fix = finding.says
    assert where
    assert message
    assert fix or SEVERITIES.get(finding.rule) is Severity.info


def test_a_rule_reads_no_file(monkeypatch):
    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError("a rule went to the file system")

    for owner, name in ((Path, "exists"), (Path, "is_file"), (Path, "open"), (Path, "stat")):
        monkeypatch.setattr(owner, name, refuse)
    monkeypatch.setattr("builtins.open", refuse)
    for case in CASES:
        findings(case)
