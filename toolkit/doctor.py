"""`python -m toolkit.doctor [+recipe=NAME]`: what is wrong with this machine, and how to mend it."""

from __future__ import annotations

import json
import os
import sys

from toolkit import interrupt  # noqa: F401  (before all that takes time)
from toolkit.checkpoint.sources import locate, locate_draft
from toolkit.config.composed import Composed
from toolkit.config.schema.verbs import DoctorConfig, Output
from toolkit.display.machine_text import render
from toolkit.display.page import laid_out
from toolkit.errors import ToolkitError
from toolkit.machine import facts_file
from toolkit.machine.chosen import recorded
from toolkit.machine.examine import examine
from toolkit.machine.facts import MachineFacts
from toolkit.machine.interpreter import with_interpreter
from toolkit.planning.diagnosis import diagnose, diagnose_for, diagnose_without_checkpoint
from toolkit.planning.plan import Finding, Severity
from toolkit.runs.packages import import_path
from toolkit.runs.secrets import secret_values, without_secrets
from toolkit.streams import say
from toolkit.verb import run_verb

FAILED = 5
SCHEMA = 1
OURS = ("output=", "machine.", "hydra")
"""Beginnings of overrides that do not describe a deployment."""


def main() -> None:
    """Run the verb and leave with its exit code."""
    sys.exit(run_verb("doctor", DoctorConfig, run))


def run(composed: Composed[DoctorConfig]) -> int:
    """Print what was found; 5 where a rule that is certain says that something cannot work."""
    config = composed.config
    facts = facts_of(config)
    findings = diagnosis(composed, facts) if describes_a_deployment(composed) else diagnose(facts)
    if config.output is Output.json:
        say(json.dumps(document(facts, findings, composed.recipe), indent=1))
    else:
        say(laid_out(render(facts, findings)), coloured=True)
    return FAILED if any(finding.severity is Severity.refuse for finding in findings) else 0


def facts_of(config: DoctorConfig) -> MachineFacts:
    """A recorded machine, or this one."""
    if config.machine.facts_file is not None:
        return recorded(config.machine.facts_file)
    python = config.engine.python or sys.executable
    facts = examine(python, import_path(python), [(config.server.host, config.server.port)])
    return with_interpreter(facts, config.engine)


def diagnosis(composed: Composed[DoctorConfig], facts: MachineFacts) -> tuple[Finding, ...]:
    """The findings about a deployment; a checkpoint that cannot be read is one of them."""
    config = composed.config
    try:
        checkpoint, draft = locate(config.checkpoint), locate_draft(config.speculative)
    except ToolkitError as error:
        return diagnose_without_checkpoint(error, facts)
    return diagnose_for(config, composed.recipe, checkpoint, facts, draft)


def describes_a_deployment(composed: Composed[DoctorConfig]) -> bool:
    """Whether the command line says anything of what is to be served."""
    return any(not override.lstrip("+~").startswith(OURS) for override in composed.overrides)


def document(facts: MachineFacts, findings: tuple[Finding, ...], recipe: str) -> dict[str, object]:
    """The JSON document, without secrets; saved as it is, it is a file for machine.facts_file."""
    listed = [{**vars(finding), "severity": finding.severity.value} for finding in findings]
    counts = {severity.value: sum(finding.severity is severity for finding in findings) for severity in Severity}
    made = {
        "schema": SCHEMA,
        "recipe": recipe,
        "ok": not counts[Severity.refuse.value],
        "counts": counts,
        "findings": listed,
        "facts": facts_file.to_json(facts),
    }
    clean: dict[str, object] = without_secrets(made, secret_values([os.environ], None))
    return clean


if __name__ == "__main__":
    main()
