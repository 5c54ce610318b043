"""`python -m toolkit.plan +recipe=NAME`: what would be done, what fits, and what cannot work; it writes nothing."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from io import StringIO
from typing import Any

from toolkit.checkpoint.sources import locate, locate_draft
from toolkit.config.composed import Composed
from toolkit.config.schema.verbs import Output, PlanConfig
from toolkit.config.search_path import shipped_conf
from toolkit.machine.chosen import machine_facts
from toolkit.planning.make import make_plan
from toolkit.planning.plan import Plan
from toolkit.streams import say
from toolkit.verb import run_verb


def main() -> None:
    """Run the verb and leave with its exit code."""
    sys.exit(run_verb("plan", PlanConfig, run))


def run(composed: Composed[PlanConfig]) -> int:
    """Print the plan; 0 also where rules refuse it, as planning is what was asked for."""
    plan = plan_of(composed.config, composed.recipe)
    if composed.config.output is Output.json:
        say(json.dumps({**plan.to_json(), "origins": dict(composed.origins)}, indent=2, default=str))
    else:
        show(plan, composed.origins, composed.values)
    return 0


def plan_of(config: PlanConfig, recipe: str) -> Plan:
    """The plan for this machine, from what is on it now, or for a recorded one."""
    machine = machine_facts(config.machine.facts_file, [(config.server.host, config.server.port)])
    return make_plan(config, recipe, locate(config.checkpoint), machine, locate_draft(config.speculative))


def show(plan: Plan, origins: Mapping[str, str], values: Mapping[str, Any]) -> None:
    """Print the plan as text."""
    from rich.console import Console
    from rich.text import Text

    from toolkit.display.plan_text import NARROWEST, render

    terminal, page = Console(), StringIO()
    width = max(terminal.width, NARROWEST)
    console = Console(file=page, width=width, force_terminal=terminal.is_terminal, highlight=False)
    for part in render(plan, origins, values, shipped_conf()):
        console.print(part, soft_wrap=isinstance(part, Text))  # a line to be pasted is not broken
    say(re.sub(" +$", "", page.getvalue().rstrip("\n"), flags=re.MULTILINE))


if __name__ == "__main__":
    main()
