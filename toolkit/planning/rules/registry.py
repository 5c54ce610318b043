"""Every rule, in the order in which findings are shown."""

from __future__ import annotations

from toolkit.planning.plan import Finding
from toolkit.planning.rules import dtypes, environment, model, parallelism, sizes, switches
from toolkit.planning.rules.rule import Context, Rule

MODULES = (model, sizes, dtypes, parallelism, switches, environment)
RULES: tuple[Rule, ...] = tuple(rule for module in MODULES for rule in module.RULES)
MEANINGLESS = frozenset(
    {"sizes-positive", "speculative-unknown", "kv-dtype-ambiguous", "kv-dtype-unknown", "engine-dtype-unknown"}
)
"""Rules which, broken, leave a value that no size can be computed from."""


def check(context: Context) -> tuple[Finding, ...]:
    """All findings of all rules: a user should not have to mend them one at a time."""
    return tuple(finding for rule in RULES for finding in rule.findings(context))
