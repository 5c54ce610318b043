"""Every rule, in the order in which findings are shown."""

from __future__ import annotations

from toolkit.planning.plan import Finding
from toolkit.planning.rules import dtypes, environment, model, parallelism
from toolkit.planning.rules.rule import Context, Rule

RULES: tuple[Rule, ...] = (*model.RULES, *dtypes.RULES, *parallelism.RULES, *environment.RULES)


def check(context: Context) -> tuple[Finding, ...]:
    """All findings of all rules: a user should not have to mend them one at a time."""
    return tuple(finding for rule in RULES for finding in rule.findings(context))
