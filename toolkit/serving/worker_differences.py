"""What the engine's workers report beside what the plan expects: each difference is a finding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from toolkit.counted import counted
from toolkit.planning.expected import ExpectedWorkers
from toolkit.planning.plan import Finding, Severity
from toolkit.planning.worker_report import DRAFT_MODEL, AttentionLayer, Runtime, WorkerReport, layer_key

ALWAYS = frozenset({"python", "vllm", "torch"})
"""What every worker runs; another package counts once it is imported."""
SHOWN = 3
"""Layers that one finding names."""
VERSIONS = "start from the environment that ./quickstart setup makes, and leave what it serves with alone while it runs"
LOG = "look for the reason in the engine's log; an argument or a variable that the plan does not know may be it"


@dataclass(frozen=True)
class Said:
    """One difference of one worker."""

    rule: str
    severity: Severity
    message: str
    fix: str


def differences(reports: Sequence[WorkerReport], planned: ExpectedWorkers) -> tuple[Finding, ...]:
    """Every difference, one finding for all workers that share it.

    Certain failures (too many workers, other versions, another platform) are refusals, the others warnings.
    """
    found: dict[Said, list[int]] = {}
    for report in reports:
        for said in _of_one(report, planned):
            found.setdefault(said, []).append(report.rank)
    several = [
        Finding(said.rule, said.severity, f"rank {', '.join(map(str, ranks))}", said.message, said.fix)
        for said, ranks in found.items()
    ]
    return (*_count(reports, planned), *several)


def _count(reports: Sequence[WorkerReport], planned: ExpectedWorkers) -> Iterator[Finding]:
    ranks = {report.rank for report in reports}
    if planned.count is not None and len(ranks) > planned.count:
        said = f"{counted(len(ranks), 'worker')} reported, and {planned.count} were planned, one for each rank"
        yield Finding("workers-count", Severity.refuse, "workers", said, LOG)


def _of_one(report: WorkerReport, planned: ExpectedWorkers) -> Iterator[Said]:
    yield from _versions(report, planned)
    if report.runtime is None or report.runtime.platform != planned.platform:
        named = report.runtime.platform if report.runtime else "that it does not name"
        said = f"runs on the platform {named}, not on {planned.platform}"
        yield Said("workers-platform", Severity.refuse, said, LOG)
    if report.runtime is not None:
        yield from _graphs(report.runtime, planned)
        yield from _blocks(report.runtime, planned)
    if planned.engine != report.engine:
        said = f"was told engine={report.engine or '?'}, and engine={planned.engine} was planned"
        yield Said("workers-engine", Severity.warn, said, LOG)
    for name in sorted({*planned.switches, *report.switches}):
        want, have = planned.switches.get(name), report.switches.get(name)
        if want != have:
            yield Said("workers-switches", Severity.warn, f"has switch {name} at {have}, and {want} was planned", LOG)
    yield from _layers(report.layers, planned)


def _versions(report: WorkerReport, planned: ExpectedWorkers) -> Iterator[Said]:
    for name, want in planned.versions.items():
        have = report.versions.get(name)
        if have is None and name in ALWAYS:
            said = f"does not say which {name} it runs, and {name} {want} was planned"
            yield Said("workers-version", Severity.refuse, said, VERSIONS)
        elif have is not None and have.partition("+")[0] != want:
            yield Said("workers-version", Severity.refuse, f"runs {name} {have}, and {want} was planned", VERSIONS)


def _graphs(runtime: Runtime, planned: ExpectedWorkers) -> Iterator[Said]:
    graphs = planned.graphs
    values = (
        ("workers-compilation", "compilation mode", runtime.compilation, graphs.compilation),
        ("workers-graphs", "CUDA graph mode", runtime.graphs, graphs.mode),
        ("workers-capture-sizes", "CUDA graphs of", _sizes(runtime.capture_sizes), _sizes(graphs.sizes)),
    )
    for rule, what, have, want in values:
        if want is not None and have != want:
            yield Said(rule, Severity.warn, f"has {what} {have}, and {want} was planned", LOG)


def _sizes(sizes: tuple[int, ...] | None) -> str | None:
    """The sizes in few words; equal words mean equal sizes."""
    return None if sizes is None else f"{', '.join(map(str, sizes)) or 'no'} tokens"


def _blocks(runtime: Runtime, planned: ExpectedWorkers) -> Iterator[Said]:
    if planned.kv_blocks is None:
        return
    if runtime.kv_blocks is None or abs(runtime.kv_blocks - planned.kv_blocks) > 1:
        have = "does not say its KV blocks" if runtime.kv_blocks is None else f"has {runtime.kv_blocks:,} KV blocks"
        yield Said("workers-kv-blocks", Severity.warn, f"{have}, and {planned.kv_blocks:,} were planned", LOG)


def _layers(layers: Sequence[AttentionLayer], planned: ExpectedWorkers) -> Iterator[Said]:
    """Routes of the model's own layers; a draft has its own."""
    own = [each for each in layers if not each.name.startswith(DRAFT_MODEL) and not _drafts(each.name)]
    other = {"attention": planned.attention, "KV dtype": planned.kv_dtype}
    for what, want in other.items():
        odd: dict[str, list[str]] = {}
        for layer in own:
            have = layer.backend if what == "attention" else layer.kv_dtype
            if want is not None and have != want:
                odd.setdefault(have, []).append(layer.name)
        for have, names in odd.items():
            rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            said = f"{', '.join(names[:SHOWN])}{rest}: {what} is {have}, and {want} was planned"
            yield Said("workers-kv-dtype" if what == "KV dtype" else "workers-attention", Severity.warn, said, LOG)


def _drafts(name: str) -> bool:
    key = layer_key(name)
    return key is not None and key.draft
