"""From a configuration to a run that is ready to be carried out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from toolkit.checkpoint.facts import CheckpointFacts
from toolkit.checkpoint.local import read_facts
from toolkit.checkpoint.progress import Progress
from toolkit.checkpoint.sources import fetch, locate, locate_draft
from toolkit.config.paths import user_path
from toolkit.config.schema.checkpoint import SourceKind
from toolkit.config.schema.launcher import LauncherKind
from toolkit.config.schema.verbs import EngineRunConfig
from toolkit.counted import counted
from toolkit.engine import environment
from toolkit.engine.answer import MODEL_CHECKS, RANDOM_CHECKS
from toolkit.engine.http import Client
from toolkit.engine.process import Launch
from toolkit.engine.readiness import Question
from toolkit.errors import ConfigurationError, RefusedError, Rejected
from toolkit.machine.facts import MachineFacts
from toolkit.machine.interpreter import with_interpreter
from toolkit.machine.probe import probe
from toolkit.planning.make import make_plan
from toolkit.planning.plan import Plan, Severity, View
from toolkit.runs.folder import create, runs_root
from toolkit.runs.secrets import secret_values
from toolkit.runs.timings import Timings
from toolkit.serving.session import Session, first_receipt, open_session
from toolkit.serving.supervise import Request
from toolkit.views.planned import planned_view


@dataclass(frozen=True)
class Planned:
    """A plan and the facts that it was made from."""

    plan: Plan
    checkpoint: CheckpointFacts
    machine: MachineFacts
    draft: CheckpointFacts | None = None


def plan_now(config: EngineRunConfig, recipe: str) -> Planned:
    """The plan for this machine as it is now."""
    machine = machine_for(config)
    checkpoint, draft = locate(config.checkpoint), locate_draft(config.speculative)
    return Planned(make_plan(config, recipe, checkpoint, machine, draft), checkpoint, machine, draft)


def plan_dry(config: EngineRunConfig, recipe: str) -> Plan:
    """The same, on the view that would be served, as `plan` shows it."""
    machine = machine_for(config)
    seen = planned_view(config, locate(config.checkpoint))
    return seen.onto(make_plan(config, recipe, seen.checkpoint, machine, locate_draft(config.speculative)))


def machine_for(config: EngineRunConfig) -> MachineFacts:
    """This machine as it is now, with the interpreter that will serve."""
    return with_interpreter(probe([(config.server.host, config.server.port)]), config.engine)


def refuse(plan: Plan) -> None:
    """See that no rule refuses the plan.

    Raises:
        RefusedError: one or more do; all of their findings are listed.
    """
    against = [finding for finding in plan.findings if finding.severity is Severity.refuse]
    if against:
        rules = counted(len(against), "rule refuses", "rules refuse")
        raise RefusedError(
            f"{rules} this plan",
            where=plan.recipe and f"+recipe={plan.recipe}",
            rejected=[
                Rejected(f"{finding.rule} ({finding.where})", f"{finding.message}{finding.fix and f'; {finding.fix}'}")
                for finding in against
            ],
        )


def warnings(plan: Plan) -> list[str]:
    """What the rules warn of, one line each."""
    return [
        f"{finding.where}: {finding.message}{finding.fix and f' ({finding.fix})'}"
        for finding in plan.findings
        if finding.severity is Severity.warn
    ]


def with_files(planned: Planned, config: EngineRunConfig, timings: Timings, progress: Progress) -> Planned:
    """The same plan with the checkpoint's files on this machine; brought here if need be, and then planned anew.

    Raises:
        ToolkitError: they cannot be brought here, or the rules refuse what they turned out to be.
    """
    if planned.checkpoint.present:
        return planned
    timings.begin("bringing the checkpoint here")
    fetch(config.checkpoint, progress=progress)
    timings.begin("planning")
    again = plan_now(config, planned.plan.recipe)
    refuse(again.plan)
    return again


def on_view(planned: Planned, config: EngineRunConfig, view: View) -> Planned:
    """The same plan with the view as the folder that is served; planned anew where that is not the checkpoint's own.

    Raises:
        ToolkitError: the view is damaged, or the rules refuse what it changes.
    """
    if view.path is None or Path(view.path) == planned.checkpoint.root:
        return replace(planned, plan=replace(planned.plan, view=view))
    facts = read_facts(Path(view.path), planned.checkpoint.name)
    plan = make_plan(config, planned.plan.recipe, facts, planned.machine, planned.draft)
    refuse(plan)
    return replace(planned, plan=replace(plan, view=view), checkpoint=facts)


def request_for(
    planned: Planned, config: EngineRunConfig, values: Mapping[str, Any], shell: Mapping[str, str]
) -> tuple[Request, Session]:
    """What is started, and the records of it: the run's folder is made here.

    shell: the variables of the calling shell.

    Raises:
        ConfigurationError: the launcher, the key file or the folder will not do.
    """
    if config.launcher.kind is not LauncherKind.local:
        raise ConfigurationError(
            f"launcher={config.launcher.kind.value} cannot be served yet", fix="use launcher=local"
        )
    plan = planned.plan
    key = environment.read_api_key(plan.server.api_key_file) if plan.server.api_key_file else None
    folder = create(runs_root(config.runs), plan.model)
    env = environment.compose(plan.env, plan.inherit, shell, folder.path, key)
    launch = Launch(
        (_program(plan.argv[0]), *plan.argv[1:]), env.values, folder.path, folder.log, config.engine.stop_timeout_s
    )
    checks = RANDOM_CHECKS if config.checkpoint.source.kind is SourceKind.random else MODEL_CHECKS
    request = Request(
        launch, Client(plan.server, key), Question(config.question, checks), config.engine.start_timeout_s
    )
    receipt = first_receipt(
        folder=folder,
        plan=plan,
        argv=launch.argv,
        config=values,
        environment=env,
        machine=planned.machine,
        checkpoint=planned.checkpoint,
    )
    secrets = secret_values((shell, env.values, config.engine.environment), key, plan.argv)
    return request, open_session(folder, receipt, secrets, env.notice)


def _program(name: str) -> str:
    """The program by its full path, as the engine starts in the run's folder; a bare name is left to PATH."""
    return str(user_path(name, "engine.python").absolute()) if "/" in name else name
