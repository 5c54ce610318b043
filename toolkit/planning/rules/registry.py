"""Every rule, in the order in which findings are shown."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.planning.plan import Finding
from toolkit.planning.rules import (
    arguments,
    attention,
    blocks,
    cpu_engine,
    drafts,
    dtypes,
    environment,
    extensions,
    faults,
    gpus,
    host,
    members,
    model,
    offload,
    parallelism,
    parsers,
    routes,
    sharding,
    sizes,
    software,
    switches,
    tensors,
    unplanned,
    variables,
    weights,
    writing,
)
from toolkit.planning.rules.rule import Context, Rule

PLAIN_MODULES = (
    model,
    sizes,
    dtypes,
    parallelism,
    switches,
    arguments,
    unplanned,
    variables,
    cpu_engine,
    environment,
    writing,
)
"""Rules that hold whatever the numbers are."""
SIZED_MODULES = (attention, weights, drafts, sharding, blocks, offload, parsers, gpus, routes, tensors)
"""Rules that compute with sizes, and therefore need sizes that mean something."""
PLAN_MODULES = (*PLAIN_MODULES, *SIZED_MODULES)
"""Rules that every plan is checked by."""
DOCTOR_MODULES = (software, faults, extensions, members, host)
"""Rules that read facts which only a doctor gathers."""
MODULES = (*PLAN_MODULES, *DOCTOR_MODULES)
RULES: tuple[Rule, ...] = tuple(rule for module in PLAN_MODULES for rule in module.RULES)
SIZED_RULES: frozenset[Rule] = frozenset(rule for module in SIZED_MODULES for rule in module.RULES)
DOCTOR_RULES: tuple[Rule, ...] = tuple(rule for module in DOCTOR_MODULES for rule in module.RULES)
ALL_RULES = (*RULES, *DOCTOR_RULES)
MEANINGLESS = frozenset(
    {
        "sizes-positive",
        "utilization-range",
        "speculative-unknown",
        "kv-dtype-ambiguous",
        "kv-dtype-unknown",
        "engine-dtype-unknown",
    }
)
"""Rules which, broken, leave a value that no size can be computed from."""


def check(context: Context, rules: Sequence[Rule] = RULES) -> tuple[Finding, ...]:
    """All findings of these rules: a user should not have to mend them one at a time.

    Where a value means nothing, no rule computes with it.
    """
    found = [finding for rule in rules if rule not in SIZED_RULES for finding in rule.findings(context)]
    if MEANINGLESS.isdisjoint(finding.rule for finding in found):
        found += (finding for rule in rules if rule in SIZED_RULES for finding in rule.findings(context))
    return tuple(found)
