"""`python -m toolkit.serve +recipe=NAME`: plan, start, wait until it answers, stay in front."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import Any

from toolkit import interrupt  # noqa: F401  (before all that takes time)
from toolkit.config.composed import Composed
from toolkit.config.schema.verbs import Output, ServeConfig
from toolkit.display.plan_result import PlanResult
from toolkit.display.terminal import progress_for, reporter_for
from toolkit.engine.answer import Answer
from toolkit.errors import ToolkitError
from toolkit.planning.plan import Plan
from toolkit.runs.receipt import Receipt
from toolkit.runs.timings import BEFORE, Timings, process_age
from toolkit.serving.announce import difference_line, ended_document, failure_document, ready_document, ready_text
from toolkit.serving.carry_out import Run, packages_of
from toolkit.serving.prepare import Planned, on_view, plan_dry, plan_now, refuse, request_for, warnings, with_files
from toolkit.serving.replay import differs_from, recorded_run, replayed
from toolkit.serving.worker_reports import ExpectedScales
from toolkit.streams import say
from toolkit.verb import run_verb
from toolkit.views.planning import leased_view
from toolkit.views.scales.served import served_scales


def main() -> None:
    """Run the verb and leave with its exit code."""
    sys.exit(run_verb("serve", ServeConfig, run))


def run(composed: Composed[ServeConfig]) -> int:
    """Serve; 0 or 128+n at the end, and the exit codes of errors otherwise."""
    serve = Serve(composed, Timings({BEFORE: process_age()}))
    try:
        return serve.run()
    except ToolkitError as error:
        serve.print_json(failure_document(error))
        raise


@dataclass
class Serve:
    """One call of the verb; with output=json it prints one document, at the answer or at a failure before it."""

    composed: Composed[ServeConfig]
    timings: Timings
    printed: bool = False

    def run(self) -> int:
        """Plan, start, wait, stay."""
        recorded = recorded_run(self.composed)
        if recorded is not None:
            self.composed = replayed(self.composed, recorded)
        config = self.composed.config
        self.timings.begin("planning")
        if config.dry_run:
            plan = plan_dry(config, self.composed.recipe)
            self._print_plan(plan)
            refuse(plan)
            return 0
        planned = plan_now(config, self.composed.recipe)
        refuse(planned.plan)
        progress = progress_for(sys.stderr)
        planned = with_files(planned, config, self.timings, progress)
        self.timings.begin("making the view")
        with leased_view(config, planned.checkpoint, progress) as view:
            return self._start(on_view(planned, config, view), recorded)

    def _start(self, planned: Planned, recorded: Receipt | None) -> int:
        config = self.composed.config
        request, session = request_for(planned, config, self.composed.values, os.environ)
        packages, reporter = packages_of(request.launch.argv[0]), reporter_for(sys.stderr)
        found = differs_from(recorded, session, packages)
        for line in [*warnings(planned.plan), *session.notices, *map(difference_line, found)]:
            reporter.notice(line)

        def announce(answer: Answer) -> None:
            address = request.client.address
            self.print_json(ready_document(answer, address, session.receipt, session.folder, found))
            if config.output is Output.text:
                say(ready_text(answer, address, config.until))

        run = Run(
            request,
            session,
            config.until,
            self.timings,
            reporter,
            announce,
            packages,
            planned.plan.workers,
            planned.plan.capacity,
            config.limits.max_model_len,
            ExpectedScales(served_scales(planned.checkpoint), config.overlay.strict),
        )
        outcome = run.carry_out()
        self.print_json(ended_document(outcome))
        return outcome.exit_code or 0

    def _print_plan(self, plan: Plan) -> None:
        self.print_json(plan.to_json())
        if self.composed.config.output is Output.text:
            say(PlanResult(plan, self.composed.origins, self.composed.values).text(), coloured=True)

    def print_json(self, document: dict[str, Any]) -> None:
        """Print the one document, where JSON was asked for and none was printed."""
        if self.composed.config.output is Output.json and not self.printed:
            self.printed = True
            say(json.dumps(document, indent=2, default=str))


if __name__ == "__main__":
    main()
