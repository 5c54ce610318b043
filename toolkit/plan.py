"""`python -m toolkit.plan +recipe=NAME`: what would be done, what fits, and what cannot work; it writes nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from toolkit import interrupt  # noqa: F401  (before all that takes time)
from toolkit.config.command_line import read_command_line
from toolkit.config.composed import Composed
from toolkit.config.composing import compose_other
from toolkit.config.schema.verbs import PlanConfig, PlanOutput
from toolkit.config.search_path import shipped_conf
from toolkit.display.page_file import write_page
from toolkit.display.plan_result import PlanResult
from toolkit.display.sweep_text import table
from toolkit.errors import ConfigurationError, ToolkitError
from toolkit.planning.compare import Comparison, compare
from toolkit.planning.fit import fit
from toolkit.planning.plan import Plan
from toolkit.planning.sweep import Row, as_mapping, document
from toolkit.serving.gathered import gather
from toolkit.streams import say
from toolkit.verb import run_verb


def main() -> None:
    """Run the verb and leave with its exit code."""
    sys.exit(run_verb("plan", PlanConfig, run, Plans()))


def run(composed: Composed[PlanConfig]) -> int:
    """Print the plan; 0 also where rules refuse it, as planning is what was asked for."""
    config = composed.config
    facts = gather(config)
    plan = facts.plan(config, composed.recipe)
    found = fit(config, plan, lambda changed: facts.plan(changed, composed.recipe)) if config.fit else None
    beside = comparison(composed, plan, config.compare) if config.compare is not None else None
    result = PlanResult(plan, composed.origins, composed.values, found, beside)
    if config.html is not None:
        write_page("html", config.html, result.page(config))
    match config.output:
        case PlanOutput.json:
            say(json.dumps(result.to_json(), indent=2, default=str))
        case PlanOutput.html:
            say(result.page(config))
        case PlanOutput.text:
            say(result.text(), coloured=True)
    return 0


def comparison(composed: Composed[PlanConfig], plan: Plan, name: str) -> Comparison:
    """The plan beside that of another recipe with the same command line."""
    line = read_command_line(sys.argv[1:], shipped_conf())
    other = compose_other("plan", PlanConfig, line, "compare", name)
    return compare(plan, composed.values, gather(other.config).plan(other.config, other.recipe), other.values, name)


@dataclass
class Plans:
    """The plans of a sweep, printed together at its end."""

    rows: list[Row] = field(default_factory=list)
    output: PlanOutput = PlanOutput.text

    def job(self, composed: Composed[PlanConfig]) -> int:
        """Plan one combination."""
        config = composed.config
        self.output = config.output
        asked = {"compare": config.compare is not None, "fit": config.fit, "html": config.html is not None}
        asked["output=html"] = config.output is PlanOutput.html
        if alone := [name for name, is_asked in asked.items() if is_asked]:
            where, fix = alone[0], "leave out -m, or compare the rows of its table"
            raise ConfigurationError(f"{where} belongs to one plan, and -m makes several", where=where, fix=fix)
        plan = gather(config).plan(config, composed.recipe)
        self.rows.append(Row(as_mapping(composed.overrides), plan, composed.origins))
        return 0

    def failed(self, overrides: Sequence[str], error: ToolkitError) -> None:
        """Keep the combination's place in the table."""
        self.rows.append(Row(as_mapping(overrides), None, {}, error))

    def end(self) -> None:
        """Print the table, or one document."""
        as_json = self.output is PlanOutput.json
        say(json.dumps(document(self.rows), indent=2, default=str) if as_json else "\n".join(table(self.rows)))


if __name__ == "__main__":
    main()
