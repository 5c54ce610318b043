"""A case: one context, and what a rule says of it. Each module of cases holds those of some modules of rules."""

from dataclasses import dataclass, field
from typing import Any

import cases

from toolkit.checkpoint.facts import CheckpointFacts
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.machine.facts import MachineFacts


@dataclass
class Case:
    """One context; `says` is the finding's where, message and fix, or None where the rule lets it pass.

    unchecked: the rule says that it does not know, as a fact is missing.
    """

    rule: str
    says: tuple[str, str, str] | None
    config: DeploymentConfig
    checkpoint: CheckpointFacts = field(default_factory=cases.facts)
    machine: MachineFacts = field(default_factory=cases.machine)
    recipe: str = ""
    unchecked: bool = False


def waits(rule: str, where: str, fact: str, config: DeploymentConfig, *, fix: str = "", **rest: Any) -> Case:
    """A case in which a rule lacks a fact."""
    return Case(rule, (where, f"not checked, as {fact}", fix), config, unchecked=True, **rest)


def absent(why: str | None = None) -> CheckpointFacts:
    return cases.facts(present=False, root=None, files={}, missing=why)
