"""Every rule, in the order in which findings are shown."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.planning.plan import Finding
from toolkit.planning.rules import dtypes, environment, gpus, host, model, parallelism, sizes, software, switches
from toolkit.planning.rules.rule import Context, Rule

PLAN_MODULES = (model, sizes, dtypes, parallelism, switches, environment, gpus)
"""Rules that every plan is checked by."""
DOCTOR_MODULES = (software, host)
"""Rules that read facts which only a doctor gathers."""
MODULES = (*PLAN_MODULES, *DOCTOR_MODULES)
RULES: tuple[Rule, ...] = tuple(rule for module in PLAN_MODULES for rule in module.RULES)
DOCTOR_RULES: tuple[Rule, ...] = tuple(rule for module in DOCTOR_MODULES for rule in module.RULES)
ALL_RULES = (*RULES, *DOCTOR_RULES)
MEANINGLESS = frozenset(
    {"sizes-positive", "speculative-unknown", "kv-dtype-ambiguous", "kv-dtype-unknown", "engine-dtype-unknown"}
)
"""Rules which, broken, leave a value that no size can be computed from."""


def check(context: Context, rules: Sequence[Rule] = RULES) -> tuple[Finding, ...]:
    """All findings of these rules: a user should not have to mend them one at a time."""
    return tuple(finding for rule in rules for finding in rule.findings(context))
