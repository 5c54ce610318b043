"""Proposals that make a plan fit, as text."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.planning.fit import Fit, Proposal


def render(found: Fit) -> str:
    """What to type, or that nothing helps."""
    return "\n".join(_lines(found))


def _lines(found: Fit) -> Iterator[str]:
    yield "what would make it fit"
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
        for finding in found.nearest.plan.findings:
            if finding.rule in {problem.rule for problem in found.problems}:
                yield f"      even so {finding.message}"
    yield "  a smaller model, more GPUs (limits.tensor_parallel) or GPUs with more memory would"


def effect(proposal: Proposal) -> str:
    """What a proposal costs, and what fits then."""
    losses = "; ".join(dict.fromkeys(change.loss for change in proposal.changes))
    capacity = proposal.plan.capacity
    if capacity is None or capacity.tokens is None or capacity.concurrency is None:
        return f"costs {losses}"
    return f"costs {losses}; then {capacity.tokens:,} tokens, {capacity.concurrency:.2f} full requests at once"
