"""What is wrong with a machine: by itself, and for one deployment."""

from __future__ import annotations

from toolkit.checkpoint.facts import CheckpointFacts
from toolkit.config.schema.engine import EngineName
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.errors import ToolkitError
from toolkit.machine.facts import MachineFacts
from toolkit.planning.make import make_plan
from toolkit.planning.plan import Finding, Severity
from toolkit.planning.rules import gpus, writing
from toolkit.planning.rules.registry import DOCTOR_RULES, check
from toolkit.planning.rules.rule import Context


def diagnose(machine: MachineFacts) -> tuple[Finding, ...]:
    """Findings about a machine by itself: where it has an NVIDIA driver, as one that serves on all of its GPUs."""
    config = DeploymentConfig()
    config.engine.name = EngineName.v100 if machine.gpus or machine.driver else EngineName.cpu
    config.limits.tensor_parallel = max(1, len(machine.gpus))
    nothing = CheckpointFacts(name="", present=True, root=None, config={})
    return check(Context(config, "", nothing, machine), (*gpus.RULES, *writing.RULES, *DOCTOR_RULES))


def diagnose_for(
    config: DeploymentConfig,
    recipe: str,
    checkpoint: CheckpointFacts,
    machine: MachineFacts,
    draft: CheckpointFacts | None = None,
) -> tuple[Finding, ...]:
    """Findings about a deployment on that machine: the plan's own, and those of rules that only a doctor asks."""
    plan = make_plan(config, recipe, checkpoint, machine, draft)
    return (*plan.findings, *check(Context(config, recipe, checkpoint, machine), DOCTOR_RULES))


def diagnose_without_checkpoint(error: ToolkitError, machine: MachineFacts) -> tuple[Finding, ...]:
    """Findings about a machine whose checkpoint cannot be read: no reason to keep the others back."""
    message = f"{error.what}{f': {error.why}' if error.why else ''}"
    fault = Finding("checkpoint-unreadable", Severity.refuse, error.where or "checkpoint", message, error.fix)
    return (*diagnose(machine), fault)
