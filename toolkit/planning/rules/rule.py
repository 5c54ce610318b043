"""A rule: a check of configuration, checkpoint and machine, as a pure function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from toolkit.checkpoint.facts import CheckpointFacts
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.errors import ConfigurationError
from toolkit.machine.facts import MachineFacts
from toolkit.planning.capacity.layers import plan_layers
from toolkit.planning.geometry import ModelGeometry, read_geometry
from toolkit.planning.plan import Finding, Severity


@dataclass(frozen=True)
class Context:
    """All that a rule may look at."""

    config: DeploymentConfig
    recipe: str
    checkpoint: CheckpointFacts
    machine: MachineFacts

    @cached_property
    def geometry(self) -> ModelGeometry | None:
        """The model's shapes; None where config.json does not give them, which the plan says by itself."""
        try:
            return read_geometry(self.checkpoint.config)
        except ConfigurationError:
            return None

    @cached_property
    def block_tokens(self) -> int | None:
        """Tokens of one KV block on one rank, as planned; None where it cannot be computed, which the plan says."""
        try:
            return None if self.geometry is None else plan_layers(self.config, self.geometry).block_tokens
        except ConfigurationError:
            return None


@dataclass(frozen=True)
class Problem:
    """One way in which a plan breaks a rule."""

    where: str
    message: str
    fix: str = ""
    unchecked: bool = False
    """It is not known whether the rule holds, as a fact is missing."""


def unknown(where: str, fact: str, fix: str = "") -> Problem:
    """What a rule says where a fact that it needs is missing: it never passes by default."""
    return Problem(where, f"not checked, as {fact}", fix, unchecked=True)


def not_looked_at(where: str, what: str) -> Problem:
    """For a rule that needs what only a doctor looks at; `what` with its verb, as in `free space was`."""
    return unknown(where, f"{what} not looked at", "run toolkit.doctor on the serving machine")


def no_tensors(where: str) -> Problem:
    """For a rule that needs the checkpoint's tensors, where its files are not here."""
    return unknown(where, "the checkpoint's tensors are not here to be looked at")


def no_shapes() -> Problem:
    """For a rule that needs the model's shapes, where config.json does not give them."""
    return unknown("checkpoint", "the model's shapes are not known")


@dataclass(frozen=True)
class Rule:
    """One thing that must hold.

    severity: what a problem means for serving. Certain failures refuse; likely ones warn.
    reference: where the reason is written down for everyone: an issue, upstream's source, a manual, a page of ours.
    """

    id: str
    title: str
    severity: Severity
    check: Callable[[Context], Iterator[Problem]]
    reference: str

    def findings(self, context: Context) -> Iterator[Finding]:
        """What this rule has to say of a plan."""
        for problem in self.check(context):
            severity = Severity.unchecked if problem.unchecked else self.severity
            yield Finding(self.id, severity, problem.where, problem.message, problem.fix)
