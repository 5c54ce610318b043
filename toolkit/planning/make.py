"""Making a Plan: one pure function from configuration, checkpoint facts and machine facts."""

from __future__ import annotations

from toolkit.checkpoint.facts import CheckpointFacts
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.engine.command import engine_command
from toolkit.machine.facts import MachineFacts
from toolkit.planning.plan import Plan, ServerAddress, View
from toolkit.planning.rules.registry import check
from toolkit.planning.rules.rule import Context
from toolkit.planning.switch_values import settle


def make_plan(config: DeploymentConfig, recipe: str, checkpoint: CheckpointFacts, machine: MachineFacts) -> Plan:
    """The deployment as it would be carried out on that machine, with every finding of every rule."""
    switches = settle(config, machine.environment)
    model = str(checkpoint.root) if checkpoint.root is not None else f"<{checkpoint.name}: not on this machine>"
    command = engine_command(
        config, model, config.engine.python or machine.executable, {switch.name: switch.value for switch in switches}
    )
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
        memory={},
        capacity=None,
        switches=switches,
        findings=check(Context(config, recipe, checkpoint, machine)),
    )
