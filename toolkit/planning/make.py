"""Making a Plan: one pure function from configuration, checkpoint facts and machine facts."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolkit.checkpoint.facts import CheckpointFacts
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.errors import ConfigurationError
from toolkit.machine.facts import MachineFacts
from toolkit.planning.budget import Budget
from toolkit.planning.capacity import plan_capacity
from toolkit.planning.command import engine_command
from toolkit.planning.expected import expected_workers
from toolkit.planning.geometry.model import ModelGeometry
from toolkit.planning.geometry.reading import read_geometry
from toolkit.planning.kv_memory import kv_cache_memory_bytes
from toolkit.planning.memory import plan_budget
from toolkit.planning.memory.fits import memory_findings
from toolkit.planning.plan import Capacity, Finding, Plan, ServerAddress, Severity, View
from toolkit.planning.rules.registry import MEANINGLESS, check
from toolkit.planning.rules.rule import Context
from toolkit.planning.switch_values import settle
from toolkit.planning.targets import has_target, meet, wrong_targets


@dataclass(frozen=True)
class Sizes:
    """What follows from the model's shapes; empty where they are not known."""

    config: DeploymentConfig
    """The deployment, its targets turned into bytes."""
    budget: Budget = field(default_factory=Budget)
    capacity: Capacity | None = None
    findings: tuple[Finding, ...] = ()


def make_plan(
    config: DeploymentConfig,
    recipe: str,
    checkpoint: CheckpointFacts,
    machine: MachineFacts,
    draft: CheckpointFacts | None = None,
) -> Plan:
    """The deployment as it would be carried out on that machine, with every finding of every rule.

    draft: a draft model's own checkpoint; without its files, group `speculative` describes it.
    """
    switches = settle(config, machine.environment)
    findings = check(Context(config, recipe, checkpoint, machine))
    wrong = wrong_targets(config)
    computable = not wrong and MEANINGLESS.isdisjoint(finding.rule for finding in findings)
    sizes = _sizes(config, checkpoint, machine, draft) if computable else Sizes(config)
    if sizes.config is not config:
        config, findings = sizes.config, check(Context(sizes.config, recipe, checkpoint, machine))
    model = str(checkpoint.root) if checkpoint.root is not None else f"<{checkpoint.name}: not on this machine>"
    values = {switch.name: switch.value for switch in switches}
    command = engine_command(config, model, config.engine.python or machine.executable, values)
    server = config.server
    return Plan(
        recipe=recipe,
        engine=config.engine.name.value,
        model=checkpoint.name,
        server=ServerAddress(server.host, server.port, checkpoint.name, server.api_key_file),
        argv=command.argv,
        env=command.env,
        inherit=tuple(config.engine.inherit),
        view=View(str(checkpoint.root) if checkpoint.root else None, None, tuple(sorted(checkpoint.files))),
        budget=sizes.budget,
        capacity=sizes.capacity,
        switches=switches,
        findings=(*findings, *wrong, *_draft_not_here(config, draft), *sizes.findings),
        workers=expected_workers(
            config, machine, values, sizes.capacity.blocks if sizes.capacity is not None else None, checkpoint.config
        ),
    )


def _sizes(
    config: DeploymentConfig, checkpoint: CheckpointFacts, machine: MachineFacts, draft: CheckpointFacts | None
) -> Sizes:
    """What takes memory and what the KV cache holds, or a finding that says why not; never a silent guess."""
    where = "config.json" if checkpoint.present else "checkpoint.declared"
    try:
        geometry = read_geometry(checkpoint.config)
        draft_geometry = read_geometry(draft.config) if draft is not None and draft.config else None
        targeted = meet(config, geometry, draft_geometry)
        capacity = plan_capacity(targeted.config, geometry, kv_cache_memory_bytes(targeted.config), draft_geometry)
        budget = plan_budget(targeted.config, geometry, checkpoint, draft, machine.environment)
    except ConfigurationError as error:
        message = f"{error.what}{f': {error.why}' if error.why else ''}"
        severity = Severity.refuse if has_target(config) else Severity.warn  # a target that is not met decides nothing
        finding = Finding("capacity-unknown", severity, error.where or where, message, error.fix)
        return Sizes(config, findings=(finding,))
    unknown = _not_understood(geometry, where)
    if budget.unknown:
        message = f"the plan does not decide, and does not count: {', '.join(budget.unknown)}"
        unknown += (Finding("memory-unknown", Severity.info, "memory of one rank", message),)
    fitting = memory_findings(targeted.config, budget, capacity, machine)
    too_small = _too_small(targeted.config, capacity)
    unknown += _other_vocabulary(config, geometry, draft_geometry)
    return Sizes(targeted.config, budget, capacity, (*unknown, *targeted.findings, *too_small, *fitting))


def _not_understood(geometry: ModelGeometry, where: str) -> tuple[Finding, ...]:
    """What config.json says and no size follows from, all of it at once."""
    if not geometry.unknown:
        return ()
    message = f"not known to the planner: {', '.join(geometry.unknown)}; sizes that depend on them are not in the plan"
    fix = "hold the plan against the capacity and the memory that the engine's own log tells after its start"
    return (Finding("geometry-unknown", Severity.warn, where, message, fix),)


def _other_vocabulary(
    config: DeploymentConfig, geometry: ModelGeometry, draft: ModelGeometry | None
) -> tuple[Finding, ...]:
    """Tokens are passed on by their numbers, so both models must have the same ones."""
    if draft is None or config.speculative.method != "draft_model" or draft.vocab_size == geometry.vocab_size:
        return ()
    message = f"the draft has {draft.vocab_size:,} tokens and the model {geometry.vocab_size:,}"
    fix = "choose a draft of the same vocabulary"
    return (Finding("draft-vocabulary", Severity.refuse, "speculative", message, fix),)


def _draft_not_here(config: DeploymentConfig, draft: CheckpointFacts | None) -> tuple[Finding, ...]:
    """The engine fetches nothing, so a draft must be on this machine before it starts."""
    if draft is None or draft.present:
        return ()
    if config.speculative.draft_path:
        message = f"the folder {config.speculative.draft_path} does not exist"
        return (
            Finding("draft-not-here", Severity.refuse, "speculative.draft_path", message, "name the draft's folder"),
        )
    speculative = config.speculative
    message = f"{speculative.draft_repository} is not, or not wholly, on this machine, and serve fetches no drafts"
    fix = f"hf download {speculative.draft_repository} --revision {speculative.draft_revision}"
    return (Finding("draft-not-here", Severity.warn, "speculative.draft_repository", message, fix),)


def _too_small(config: DeploymentConfig, capacity: Capacity) -> tuple[Finding, ...]:
    """The engine refuses to start where one full request does not fit."""
    fewest = capacity.blocks_per_request + 1  # the engine holds one block back, the null block
    if capacity.blocks is None or capacity.blocks >= fewest:
        return ()
    needed = fewest * capacity.bytes_per_block
    return (
        Finding(
            "kv-too-small",
            Severity.refuse,
            "limits.kv_cache_memory_bytes",
            f"one request of {config.limits.max_model_len:,} tokens needs {fewest:,} blocks with the null block, and "
            f"{capacity.blocks:,} fit",
            f"use limits.kv_cache_memory_bytes={needed} at least, or a smaller limits.max_model_len",
        ),
    )
