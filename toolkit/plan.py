"""`python -m toolkit.plan +recipe=NAME`: what would be done, what fits, and what cannot work; it writes nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolkit.checkpoint.facts import CheckpointFacts
from toolkit.checkpoint.sources import locate, locate_draft
from toolkit.config.command_line import read_command_line
from toolkit.config.composed import Composed
from toolkit.config.composing import compose_other
from toolkit.config.schema.verbs import DeploymentConfig, PlanConfig, PlanOutput
from toolkit.config.search_path import shipped_conf
from toolkit.errors import ConfigurationError, ToolkitError
from toolkit.machine.chosen import machine_facts
from toolkit.machine.facts import MachineFacts
from toolkit.planning.compare import Comparison, compare
from toolkit.planning.fit import Fit, fit
from toolkit.planning.make import make_plan
from toolkit.planning.plan import Plan
from toolkit.planning.sweep import Row, as_mapping, document
from toolkit.streams import say
from toolkit.verb import run_verb
from toolkit.views.planned import PlannedView, planned_view


def main() -> None:
    """Run the verb and leave with its exit code."""
    sys.exit(run_verb("plan", PlanConfig, run, Plans()))


def run(composed: Composed[PlanConfig]) -> int:
    """Print the plan; 0 also where rules refuse it, as planning is what was asked for."""
    config = composed.config
    facts = facts_of(config)
    plan = facts.plan(config, composed.recipe)
    found = fit(config, plan, lambda changed: facts.plan(changed, composed.recipe)) if config.fit else None
    beside = comparison(composed, plan, config.compare) if config.compare is not None else None
    if config.html is not None:
        _write(Path(config.html).expanduser(), page_of(composed, plan))
    if config.output is PlanOutput.json:
        extra = {"comparison": beside.to_json()} if beside else {}
        extra |= {"fit": found.to_json()} if found else {}
        say(json.dumps({**plan.to_json(), "origins": dict(composed.origins), **extra}, indent=2, default=str))
    elif config.output is PlanOutput.html:
        say(page_of(composed, plan))
    else:
        _print(composed, plan, beside, found)
    return 0


def page_of(composed: Composed[PlanConfig], plan: Plan) -> str:
    """The plan as a page of HTML."""
    from toolkit.display.memory_bar import Scale
    from toolkit.display.plan_html import page

    config = composed.config
    memory = max(0, config.hardware.gpu_memory_bytes)
    profiled = plan.capacity is not None and plan.capacity.blocks is None
    limit = int(memory * config.limits.gpu_memory_utilization) if profiled else memory
    return page(plan, composed.origins, composed.values, shipped_conf(), Scale(memory, limit))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        why = error.strerror or str(error)
        raise ConfigurationError(
            "the page cannot be written", where=f"html={path}", why=why, fix="html=FILE"
        ) from error


@dataclass(frozen=True)
class Facts:
    """What plans are made from, beside a configuration."""

    seen: PlannedView
    """The folder that is served: the checkpoint's own, or a view that `serve` would make."""
    machine: MachineFacts
    draft: CheckpointFacts | None

    def plan(self, config: DeploymentConfig, recipe: str) -> Plan:
        """The plan of a configuration."""
        return self.seen.onto(make_plan(config, recipe, self.seen.checkpoint, self.machine, self.draft))


def facts_of(config: PlanConfig) -> Facts:
    """This machine as it is now, or a recorded one, and what is on this one of the checkpoint."""
    machine = machine_facts(config.machine.facts_file, [(config.server.host, config.server.port)])
    return Facts(planned_view(config, locate(config.checkpoint)), machine, locate_draft(config.speculative))


def plan_of(config: PlanConfig, recipe: str) -> Plan:
    """The plan for this machine, from what is on it now, or for a recorded one."""
    return facts_of(config).plan(config, recipe)


def comparison(composed: Composed[PlanConfig], plan: Plan, name: str) -> Comparison:
    """The plan beside that of another recipe with the same command line."""
    other = compose_other("plan", PlanConfig, read_command_line(sys.argv[1:], shipped_conf()), "compare", name)
    return compare(plan, composed.values, plan_of(other.config, other.recipe), other.values, other.recipe)


@dataclass
class Plans:
    """The plans of a sweep, printed together at its end."""

    rows: list[Row] = field(default_factory=list)
    output: PlanOutput = PlanOutput.text

    def job(self, composed: Composed[PlanConfig]) -> int:
        """Plan one combination."""
        config = composed.config
        self.output = config.output
        asked = {"compare": config.compare, "fit": config.fit, "html": config.html}
        asked["output=html"] = config.output is PlanOutput.html
        if alone := [name for name, value in asked.items() if value]:
            where, fix = alone[0], "leave out -m, or compare the rows of its table"
            raise ConfigurationError(f"{where} belongs to one plan, and -m makes several", where=where, fix=fix)
        plan = plan_of(config, composed.recipe)
        self.rows.append(Row(as_mapping(composed.overrides), plan, composed.origins))
        return 0

    def failed(self, overrides: Sequence[str], error: ToolkitError) -> None:
        """Keep the combination's place in the table."""
        self.rows.append(Row(as_mapping(overrides), None, {}, error))

    def end(self) -> None:
        """Print the table, or one document."""
        from toolkit.display.sweep_text import table

        as_json = self.output is PlanOutput.json
        say(json.dumps(document(self.rows), indent=2, default=str) if as_json else "\n".join(table(self.rows)))


def _print(composed: Composed[PlanConfig], plan: Plan, beside: Comparison | None, found: Fit | None) -> None:
    """The plan in full; beside another, only what differs."""
    from toolkit.display import compare_text, fit_text

    if beside is not None:
        say(compare_text.render(beside))
    else:
        show(plan, composed.origins, composed.values)
    if found is not None:
        say("\n" + fit_text.render(found))


def show(plan: Plan, origins: Mapping[str, str], values: Mapping[str, Any]) -> None:
    """Print the plan as text."""
    from toolkit.display.page import laid_out
    from toolkit.display.plan_text import render

    say(laid_out(render(plan, origins, values, shipped_conf())))


if __name__ == "__main__":
    main()
