"""What a plan is made from besides its configuration: this machine or a recorded one, and what is here of the model."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.checkpoint.facts import CheckpointFacts
from toolkit.checkpoint.sources import locate, locate_draft
from toolkit.config.schema.verbs import DeploymentConfig, PlanConfig
from toolkit.machine.chosen import machine_facts
from toolkit.machine.facts import MachineFacts
from toolkit.machine.interpreter import with_interpreter
from toolkit.planning.make import make_plan
from toolkit.planning.plan import Plan
from toolkit.views.planned import PlannedView, planned_view


@dataclass(frozen=True)
class Gathered:
    """Facts for one plan, or for several of one machine and model."""

    seen: PlannedView
    """The folder that is served: the checkpoint's own, or a view that `serve` would make."""
    machine: MachineFacts
    draft: CheckpointFacts | None

    def plan(self, config: DeploymentConfig, recipe: str) -> Plan:
        """The plan of a configuration."""
        return self.seen.onto(make_plan(config, recipe, self.seen.checkpoint, self.machine, self.draft))


def gather(config: PlanConfig) -> Gathered:
    """This machine as it is now, or the recorded one; nothing is fetched. Raises ToolkitError."""
    machine = machine_facts(config.machine.facts_file, [(config.server.host, config.server.port)])
    if config.machine.facts_file is None:
        machine = with_interpreter(machine, config.engine)
    return Gathered(planned_view(config, locate(config.checkpoint)), machine, locate_draft(config.speculative))
