"""A rule: a check of configuration, checkpoint and machine, as a pure function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from toolkit.checkpoint.facts import CheckpointFacts
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.machine.facts import MachineFacts
from toolkit.planning.plan import Finding, Severity


@dataclass(frozen=True)
class Context:
    """All that a rule may look at."""

    config: DeploymentConfig
    recipe: str
    checkpoint: CheckpointFacts
    machine: MachineFacts


@dataclass(frozen=True)
class Problem:
    """One way in which a plan breaks a rule."""

    where: str
    message: str
    fix: str = ""


@dataclass(frozen=True)
class Rule:
    """One thing that must hold.

    severity: what a problem means for serving. Certain failures refuse; likely ones warn.
    reference: where the reason is written down for everyone.
    """

    id: str
    title: str
    severity: Severity
    check: Callable[[Context], Iterator[Problem]]
    reference: str = ""

    def findings(self, context: Context) -> Iterator[Finding]:
        """What this rule has to say of a plan."""
        for problem in self.check(context):
            yield Finding(self.id, self.severity, problem.where, problem.message, problem.fix)
