"""`python -m toolkit.stop`: stop a run from any shell, and wait until nothing of it is left."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from toolkit import interrupt  # noqa: F401  (before all that takes time)
from toolkit.config.composed import Composed
from toolkit.config.schema.verbs import Output, RunsConfig
from toolkit.runs.folder import runs_root
from toolkit.runs.listing import choose, look
from toolkit.serving.failures import survived
from toolkit.serving.stopping import stop
from toolkit.streams import say
from toolkit.verb import run_verb

WORDS = {
    "asked": "stopped",
    "killed": "its serve process did not react and was killed",
    "cleared": "its serve process was dead already; whatever was left is gone",
}


def main() -> None:
    """Run the verb and leave with its exit code."""
    sys.exit(run_verb("stop", RunsConfig, run))


def run(composed: Composed[RunsConfig]) -> int:
    """Stop the named run, or the only one alive."""
    config = composed.config
    root = runs_root(config.runs)
    done = stop(choose(look(root), config.run, root))
    if done.survivors:
        raise survived(done.survivors)
    if config.output is Output.json:
        say(json.dumps({"schema": 1, **asdict(done)}, indent=2))
    else:
        say(f"{done.run}: {WORDS[done.how]}")
    return 0


if __name__ == "__main__":
    main()
