"""Changes that make a plan fit which is refused for its size, each tried by the planner itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from typing import Any

from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.planning.levers import LEVERS, Change, Lever
from toolkit.planning.plan import Finding, Plan, Severity

Planner = Callable[[DeploymentConfig], Plan]
SIZE_RULES = frozenset(
    {"context-too-long", "kv-too-small", "gpu-memory-short", "gpu-share-short", "kv-over-host-memory"}
)
"""Rules that refuse a plan because something does not fit."""


@dataclass(frozen=True)
class Proposal:
    """Changes that were planned together."""

    changes: tuple[Change, ...]
    plan: Plan

    @property
    def overrides(self) -> str:
        """What to type."""
        return " ".join(change.override for change in self.changes)

    def to_json(self) -> dict[str, Any]:
        """The proposal as plain data."""
        return {
            "overrides": [change.override for change in self.changes],
            "losses": [change.loss for change in self.changes],
            "capacity": asdict(self.plan.capacity) if self.plan.capacity is not None else None,
            "problems": [found.message for found in of_size(self.plan)],
        }


@dataclass(frozen=True)
class Fit:
    """What can be done."""

    problems: tuple[Finding, ...]
    """Why the plan does not fit; empty where it does."""
    proposals: tuple[Proposal, ...]
    """Each makes it fit by itself, the cheapest loss first."""
    nearest: Proposal | None
    """Where nothing fits: every change at once, which still does not."""
    unknown: tuple[Finding, ...] = ()
    """Why no size is known, so that nobody can say what would fit; empty where sizes are known."""

    def to_json(self) -> dict[str, Any]:
        """The proposals as plain data."""
        return {
            "needed": bool(self.problems),
            "unknown": [found.message for found in self.unknown],
            "proposals": [proposal.to_json() for proposal in self.proposals],
            "nearest": self.nearest.to_json() if self.nearest is not None else None,
        }


def fit(config: DeploymentConfig, plan: Plan, planner: Planner) -> Fit:
    """Propose changes to a deployment.

    One change that suffices comes before several; where none does alone, changes are added in the order of their
    loss, and then taken back as far as the plan still fits.

    planner: plans a changed deployment with the same facts.
    """
    if plan.capacity is None:
        return Fit((), (), None, _why_unknown(plan))
    problems = of_size(plan)
    if not problems:
        return Fit((), (), None)
    search = _Search(planner, plan)
    alone = [found for lever in LEVERS if (found := search.mildest(config, lever)) is not None]
    if alone:
        return Fit(problems, tuple(alone), None)
    together = search.together(config)
    if search.fits(together.plan):
        return Fit(problems, (together,), None)
    return Fit(problems, (), together)


def of_size(plan: Plan) -> tuple[Finding, ...]:
    """The findings that refuse a plan for its size."""
    return tuple(found for found in plan.findings if found.rule in SIZE_RULES and found.severity is Severity.refuse)


def _why_unknown(plan: Plan) -> tuple[Finding, ...]:
    """What kept the planner from its sizes: the model's shapes, or values that mean nothing."""
    told = tuple(found for found in plan.findings if found.rule == "capacity-unknown")
    return told or tuple(found for found in plan.findings if found.severity is Severity.refuse)


class _Search:
    """Tries deployments, and knows what the plan was refused for already."""

    def __init__(self, planner: Planner, plan: Plan) -> None:
        self._planner = planner
        self._accepted = _refusals(plan) - SIZE_RULES

    def fits(self, plan: Plan) -> bool:
        """Whether no size refuses it, and no rule that did not refuse before."""
        return plan.capacity is not None and _refusals(plan) <= self._accepted

    def mildest(self, config: DeploymentConfig, lever: Lever) -> Proposal | None:
        """The first of a lever's changes that makes the plan fit, by bisection where they are ordered."""
        changes = lever.changes(config, self._planner(config))
        if lever.unordered:
            return self._any(config, changes)
        if not changes or not self.fits(self._with(config, (changes[-1],)).plan):
            return None
        low, high = 0, len(changes) - 1
        while low < high:
            middle = (low + high) // 2
            if self.fits(self._with(config, (changes[middle],)).plan):
                high = middle
            else:
                low = middle + 1
        found = self._with(config, (changes[low],))
        return found if self.fits(found.plan) else self._with(config, (changes[-1],))

    def _any(self, config: DeploymentConfig, changes: Sequence[Change]) -> Proposal | None:
        tried = (self._with(config, (change,)) for change in changes)
        return next((found for found in tried if self.fits(found.plan)), None)

    def together(self, config: DeploymentConfig) -> Proposal:
        """Every lever as far as it goes until the plan fits, and then back: the costliest loss first."""
        applied: list[tuple[Lever, Change]] = []
        found = Proposal((), self._planner(config))
        for lever in LEVERS:
            now = with_changes(config, [change for _, change in applied])
            strongest_first = reversed(lever.changes(now, found.plan))
            usable = (change for change in strongest_first if self._allowed(self._with(now, (change,)).plan))
            if (strongest := next(usable, None)) is not None:
                applied.append((lever, strongest))
                found = self._with(config, [change for _, change in applied])
            if self.fits(found.plan):
                return self._milder(config, applied)
        return found

    def _allowed(self, plan: Plan) -> bool:
        return plan.capacity is not None and _refusals(plan) - SIZE_RULES <= self._accepted

    def _milder(self, config: DeploymentConfig, applied: Sequence[tuple[Lever, Change]]) -> Proposal:
        kept = [change for _, change in applied]
        for position in reversed(range(len(applied))):
            lever, strongest = applied[position]
            others = [change for change in kept if change is not strongest]
            base = with_changes(config, others)
            if self.fits(self._planner(base)):
                kept = others
            elif (milder := self.mildest(base, lever)) is not None:
                kept = [milder.changes[0] if change is strongest else change for change in kept]
        return self._with(config, kept)

    def _with(self, config: DeploymentConfig, changes: Sequence[Change]) -> Proposal:
        return Proposal(tuple(changes), self._planner(with_changes(config, changes)))


def with_changes(config: DeploymentConfig, changes: Sequence[Change]) -> DeploymentConfig:
    """The deployment with other values of some options."""
    changed = deepcopy(config)
    for change in changes:
        group = getattr(changed, change.group)
        setattr(changed, change.group, replace(group, **{change.name: change.value}))
    return changed


def _refusals(plan: Plan) -> frozenset[str]:
    return frozenset(found.rule for found in plan.findings if found.severity is Severity.refuse)
