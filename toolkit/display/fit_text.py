"""Proposals that make a plan fit, as text."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.planning.fit import Fit, Proposal, of_size
from toolkit.planning.plan import Finding, Plan


def render(found: Fit) -> str:
    """What to type, or that nothing helps."""
    return "\n".join(_lines(found))


def _lines(found: Fit) -> Iterator[str]:
    yield "what would make it fit"
    if found.unknown:
        yield "  nobody can say: no memory and no KV cache could be computed"
        for finding in found.unknown:
            yield from _told(finding)
        return
    if not found.problems:
        yield "  it fits already: no size refuses this plan"
        return
    for proposal in found.proposals:
        yield f"  {proposal.overrides}"
        yield f"      {effect(proposal)}"
    if found.proposals:
        return
    yield (
        "  nothing does: not all of these changes together"
        if found.nearest and found.nearest.changes
        else ("  nothing does: no option has a smaller value left")
    )
    if found.nearest is not None:
        if found.nearest.changes:
            yield f"  nearest: {found.nearest.overrides}"
        for finding in of_size(found.nearest.plan):
            yield f"      even so {finding.message}"
        yield f"  {_beyond(found.nearest.plan)}"


def _told(finding: Finding) -> Iterator[str]:
    yield f"      {finding.where}: {finding.message}"
    if finding.fix:
        yield f"      fix: {finding.fix}"


def _beyond(plan: Plan) -> str:
    """What no option can do."""
    left = of_size(plan)
    if [finding.rule for finding in left] == ["context-too-long"]:
        return left[0].fix
    if plan.engine == "v100":
        return "a smaller model would, or a profile (hardware=) with more GPUs or with more memory on each"
    return "a smaller model or a machine with more memory would"


def effect(proposal: Proposal) -> str:
    """What a proposal costs, and what fits then."""
    losses = "; ".join(dict.fromkeys(change.loss for change in proposal.changes))
    capacity = proposal.plan.capacity
    if capacity is None or capacity.tokens is None or capacity.concurrency is None:
        return f"costs {losses}"
    return f"costs {losses}; then {capacity.tokens:,} tokens, {capacity.concurrency:.2f} full requests at once"
