"""What the engine's workers report, and whether the KV scales that they use are those of the served view."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from toolkit.checkpoint.faults import check_failed
from toolkit.engine.http import Client
from toolkit.errors import CheckFailedError, Rejected
from toolkit.planning.attention_routes import FP8_DTYPES
from toolkit.planning.plan import Finding, Severity
from toolkit.planning.worker_report import DRAFT_MODEL, AttentionLayer, WorkerReport, layer_key
from toolkit.serving.report_file import report_from
from toolkit.views.scales.names import Place, place_of

Wanted = Mapping[Place, tuple[str, float]]
"""Each scale's name and value, by its layer and `k` or `v`."""
USE_S = 10.0
POLL_S = 0.02


@dataclass(frozen=True)
class ExpectedScales:
    """What the view says; without scales nothing is compared."""

    scales: Mapping[str, float] = field(default_factory=dict)
    """By the checkpoint's name."""
    strict: bool = True
    """Refuse a layer with an FP8 cache that the view has no scale for; otherwise its scale must be 1.0."""


NOTHING_EXPECTED = ExpectedScales()


def read_reports(folder: Path) -> tuple[WorkerReport, ...]:
    """The reports of a run's workers by rank; empty where there are none. CheckFailedError for a damaged one."""
    reports = []
    for path in sorted(folder.glob("rank*.json")):
        try:
            reports.append(report_from(json.loads(path.read_text(encoding="utf-8"))))
        except (OSError, ValueError, RecursionError) as error:
            raise CheckFailedError("a worker's report cannot be read", where=str(path), why=str(error)) from error
    return tuple(sorted(reports, key=lambda report: report.rank))


def await_use(folder: Path, _client: Client, cancelled: threading.Event) -> None:
    """Wait until every worker has reported after a finished request, but not for long: what is missing is found later.

    A worker hears of a request's end with the engine's next step, a moment after the client has its answer.
    """
    deadline = time.monotonic() + USE_S
    while time.monotonic() < deadline and not cancelled.is_set():
        reports = read_reports(folder)
        if all(report.requests for report in reports):
            return
        cancelled.wait(POLL_S)


def early_findings(reports: Sequence[WorkerReport]) -> tuple[Finding, ...]:
    """A warning for reports that are of the warm-up alone."""
    early = [str(report.rank) for report in reports if not report.requests]
    if not early:
        return ()
    said = f"what rank {', '.join(early)} reports is from before the first answer, so what that took is not in it"
    return (Finding("workers-report-early", Severity.warn, "workers", said, "look for its warnings in the log"),)


def missing_ranks(reports: Sequence[WorkerReport], planned: int | None) -> list[int]:
    """The ranks that left no report, in order: of those that are planned, and of those that the workers know of.

    planned: the number of ranks; None where it is not known.
    """
    size = max(planned or 1, *(report.world_size for report in reports), 1)
    return sorted(set(range(size)) - {report.rank for report in reports})


def check_scales(reports: Sequence[WorkerReport], expected: ExpectedScales, where: Path) -> None:
    """See that every attention layer uses the view's scales, and nothing else.

    reports: of all ranks. where: their folder.

    Raises:
        CheckFailedError: a scale differs, is missing, or is on a layer without an FP8 cache; each is named.
    """
    if not expected.scales:
        return
    wanted = {place: (name, value) for name, value in expected.scales.items() if (place := place_of(name)) is not None}
    layers = [layer for report in reports for layer in report.layers if not layer.name.startswith(DRAFT_MODEL)]
    faults = [
        *(fault for layer in layers for fault in _layer_faults(layer, wanted, strict=expected.strict)),
        *_unclaimed(layers, wanted),
    ]
    if faults:
        fix = "calibrate this checkpoint again, or serve with overlay=none"
        raise check_failed(tuple(dict.fromkeys(faults)), where=str(where), fix=fix)


def _layer_faults(layer: AttentionLayer, wanted: Wanted, *, strict: bool) -> Iterator[Rejected]:
    key = layer_key(layer.shares or layer.name)
    uses = {"k": (*layer.k_scale, layer.k_scale_host), "v": (*layer.v_scale, layer.v_scale_host)}
    for kind, used in uses.items():
        scale = wanted.get((key, kind)) if key is not None else None
        if layer.kv_dtype not in FP8_DTYPES:
            if scale is not None:
                what = f"the view has a {kind}_scale for it, and its cache is {layer.kv_dtype}, not FP8"
                yield Rejected(layer.name, what)
        elif scale is None and strict:
            yield Rejected(layer.name, f"its cache is {layer.kv_dtype}, and the view has no {kind}_scale for it")
        elif any(value != (scale[1] if scale else 1.0) for value in used):
            said = " and ".join(f"{value:.9g}" for value in dict.fromkeys(used))
            told = f"the view's is {scale[1]:.9g}" if scale else "the view has none, so it must be 1"
            yield Rejected(layer.name, f"uses {said} as its {kind}_scale, {told}")


def _unclaimed(layers: Sequence[AttentionLayer], wanted: Wanted) -> Iterator[Rejected]:
    """Scales of layers that no worker has; a draft's layers exist only where the plan drafts with them."""
    keys = {key for layer in layers if (key := layer_key(layer.name)) is not None}
    drafts = any(key.draft for key in keys)
    for (key, _), (name, _) in wanted.items():
        if key not in keys and (drafts or not key.draft):
            yield Rejected(name, "no attention layer of the engine takes it")
