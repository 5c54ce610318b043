"""Each rule against its cases; a rule without a case fails here."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "config"))
import cases
import pytest
from composing import compose
from rule_cases import Case, absent
from rule_sets import CASES, SEVERITIES

from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.config.strict import known_keys
from toolkit.machine.facts import Copy
from toolkit.machine.software import NAMES
from toolkit.planning.known_faults import FAULTS, WRONG_OUTPUT
from toolkit.planning.plan import Finding, Severity
from toolkit.planning.rules.computed import COMPUTED
from toolkit.planning.rules.page import PAGE, page, templates
from toolkit.planning.rules.registry import ALL_RULES, MEANINGLESS, MODULES, RULES, check
from toolkit.planning.rules.rule import Context

ROOT = Path(__file__).parents[3]


def findings(case: Case) -> list[Finding]:
    return list(check(Context(case.config, case.recipe, case.checkpoint, case.machine), ALL_RULES))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{'breaks' if case.says else 'passes'}")
def test_what_a_rule_says(case):
    said = [finding for finding in findings(case) if finding.rule == case.rule]
    if case.says is None:
        assert said == []
    else:
        where, message, fix = case.says
        severity = Severity.unchecked if case.unchecked else SEVERITIES.get(case.rule, Severity.refuse)
        assert said == [Finding(case.rule, severity, where, message, fix)]


@pytest.mark.parametrize("rule", [rule.id for rule in ALL_RULES])
@pytest.mark.parametrize("breaks", [True, False])
def test_every_rule_has_both_kinds_of_case(rule, breaks):
    assert any(case.rule == rule and (case.says is not None) == breaks for case in CASES if not case.unchecked)


def test_no_case_is_left_of_a_rule_that_is_gone():
    assert {case.rule for case in CASES} == {rule.id for rule in ALL_RULES}


def test_rules_have_names_of_their_own_and_titles():
    assert len({rule.id for rule in ALL_RULES}) == len(ALL_RULES)
    assert all(rule.title and rule.check.__doc__ for rule in ALL_RULES)
    assert {rule.id for rule in ALL_RULES} >= MEANINGLESS


def test_the_plain_deployments_pass_every_rule():
    assert [finding.rule for finding in findings(Case("", None, cases.config()))] == ["no-v100-here"]
    assert findings(Case("", None, cases.on_v100(), machine=cases.gpu_machine())) == []


def test_everything_wrong_is_said_at_once():
    spoiled = cases.on_v100(
        engine__dtype="bfloat16", kv__dtype="fp8", limits__tensor_parallel=5, server__port=0, checkpoint__name="a/b"
    )
    said = findings(Case("", None, spoiled, absent()))
    assert [finding.rule for finding in said if finding.rule in {rule.id for rule in RULES}] == [
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
    assert [finding.where for finding in said if finding.rule == "gpu-not-sm70"] == ["GPU 0", "GPU 1", "GPU 2"]


@pytest.mark.parametrize("finding", [case for case in CASES if case.says], ids=lambda case: case.rule)
def test_a_refusal_says_what_to_do(finding):
    where, message, fix = finding.says
    assert where
    assert message
    weight = Severity.unchecked if finding.unchecked else SEVERITIES.get(finding.rule)
    assert fix or weight in (Severity.info, Severity.unchecked)


def test_a_rule_reads_no_file(monkeypatch):
    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError("a rule went to the file system")

    for owner, name in ((Path, "exists"), (Path, "is_file"), (Path, "open"), (Path, "stat")):
        monkeypatch.setattr(owner, name, refuse)
    monkeypatch.setattr("builtins.open", refuse)
    for case in CASES:
        findings(case)


def test_every_rule_has_a_public_reference():
    """An issue, upstream's source, a manual, or a page of ours that is there."""
    for rule in ALL_RULES:
        assert len(rule.reference) > 5, rule.id
        page_of_ours = rule.reference.partition(",")[0]
        if page_of_ours.endswith(".md"):
            assert (ROOT / page_of_ours).is_file(), rule.id


def test_the_page_of_rules_is_current():
    assert (ROOT / PAGE).read_text(encoding="utf-8") == page(), "run `invoke docs`"


@pytest.mark.parametrize("case", [case for case in CASES if case.says], ids=lambda case: case.rule)
def test_the_page_shows_what_a_rule_says(case):
    """Every message and fix of a case has a template on the page, with `…` for what is filled in."""
    rule, module = next((rule, module) for module in MODULES for rule in module.RULES if rule.id == case.rule)
    shapes = [tuple(_pattern(text) for text in pair) for pair in templates(rule.check, module)]
    _, message, fix = case.says
    assert any(re.fullmatch(said, message, re.S) and re.fullmatch(mend, fix, re.S) for said, mend in shapes)


def _pattern(template: str) -> str:
    return ".*".join(re.escape(part) for part in template.split("…"))


def test_every_finding_of_planning_is_a_rule_or_listed():
    """Findings that planning makes by itself, read from its sources."""
    made = set()
    toolkit = ROOT / "toolkit"
    others = (toolkit / "views" / "planned.py", *(toolkit / "serving").glob("worker*.py"))
    for file in (*(toolkit / "planning").rglob("*.py"), *others):
        if file.parent.name != "rules":
            text = file.read_text(encoding="utf-8")
            made |= set(re.findall(r'Finding\(\s*"([\w-]+)"', text)) | set(re.findall(r'"(workers-[\w-]+)"', text))
    listed = {computed.id for computed in COMPUTED}
    assert made == listed, "list it in toolkit/planning/rules/computed.py and run `invoke docs`"
    assert listed.isdisjoint(rule.id for rule in ALL_RULES)


UPSTREAM = [
    (item.id, *found)
    for item in (*ALL_RULES, *COMPUTED)
    for found in re.findall(r"vLLM 0\.32 ([\w/]+\.py)(?:: ([\w ]+))?", item.reference)
]


@pytest.mark.parametrize(("rule", "file", "name"), UPSTREAM, ids=[f"{rule}-{name}" for rule, _, name in UPSTREAM])
def test_a_reference_to_upstreams_source_leads_there(rule, file, name):
    spec = importlib.util.find_spec("vllm")
    if spec is None or spec.origin is None:
        pytest.skip("vLLM is not installed here")
    source = Path(spec.origin).parent / file
    assert source.is_file()
    if name and " " not in name:
        assert name in source.read_text(encoding="utf-8")


def _typed(fix: str) -> list[str]:
    """The options that a fix names with a value, as a user would type them."""
    words = [word.rstrip(",.;:)").lstrip("(") for word in fix.split()]
    return [word for word in words if re.match(r"\+?[a-z_]+(\.\w+)*=[^A-Z=]", word)]


@pytest.mark.parametrize("option", sorted({word for case in CASES if case.says for word in _typed(case.says[2])}))
def test_what_a_fix_names_can_be_typed(option):
    parsed = subprocess.run(["bash", "-c", f"printf %s {option}"], capture_output=True, text=True, check=True).stdout
    assert [override.replace("'", "") for override in compose(parsed).overrides] == [parsed]  # it is quoted for Hydra


FREE = {"recipe.status", "checkpoint.name", "checkpoint.declared", "engine.extra_arguments", "engine.inherit"}
"""Options whose value no fix can name: a sentence says what to change of it."""


@pytest.mark.parametrize("case", [case for case in CASES if case.says], ids=lambda case: case.rule)
def test_a_fix_of_an_option_names_an_option(case):
    """A bare value would leave the reader to guess where it goes."""
    where, _, fix = case.says
    known = {key for key in known_keys(DeploymentConfig) if not key.startswith("recipe.")}
    if fix and where in known - FREE:
        groups = {key.partition(".")[0] for key in known}
        assert any(key in fix for key in known) or any(f"{group}=" in fix for group in groups), fix


@pytest.mark.parametrize("case", [case for case in CASES if case.says], ids=lambda case: case.rule)
def test_two_fixes_of_one_list_can_both_be_followed(case):
    """One that gives a list as a whole would take back what the other, or the user, put there."""
    assert re.search(r"=\[", case.says[2]) is None


def test_packages_with_known_faults_are_looked_for():
    """What the table names, a doctor records."""
    assert {fault.package for fault in (*FAULTS, *WRONG_OUTPUT) if not NAMES.fullmatch(fault.package)} == set()


def test_a_known_fault_has_versions_that_follow_each_other():
    assert all(fault.since < fault.mended and fault.what and fault.reference for fault in (*FAULTS, *WRONG_OUTPUT))


def test_a_release_that_may_answer_wrongly_is_not_refused_before_there_is_a_model():
    """Two findings, one for each fault, and both say what is not known."""
    machine = cases.gpu_machine(software=cases.software(distributions=(Copy("1cat-vllm", "1.3.0", "/engine/site"),)))
    said = findings(Case("", None, cases.on_v100(), cases.facts(config={}), machine))
    assert [(finding.severity, finding.message) for finding in said if finding.rule == "known-wrong-output"] == [
        (Severity.unchecked, f"not checked, as 1.3.0 answers wrongly {when}, and the model is not known")
        for when in ("with AWQ weights", "with recurrent states and KV offload")
    ]
