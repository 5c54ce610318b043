"""`python -m toolkit.status`: the runs of this machine, alive and dead; it changes nothing."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence

from toolkit import interrupt  # noqa: F401  (before all that takes time)
from toolkit.config.composed import Composed
from toolkit.config.schema.verbs import Output, RunsConfig
from toolkit.display.columns import in_columns
from toolkit.errors import CheckFailedError
from toolkit.runs.folder import runs_root
from toolkit.runs.listing import Runs, Seen, choose, look
from toolkit.streams import say, tell
from toolkit.verb import run_verb


def main() -> None:
    """Run the verb and leave with its exit code."""
    sys.exit(run_verb("status", RunsConfig, run))


def run(composed: Composed[RunsConfig]) -> int:
    """Print one run, or all of them, the newest last; 5 where the state of one is damaged."""
    config = composed.config
    root = runs_root(config.runs)
    runs = look(root)
    if config.run is not None:
        runs = Runs((choose(runs, config.run, root),))
    if config.output is Output.json:
        damaged = [found.to_json() for found in runs.damaged]
        say(json.dumps({"schema": 1, "runs": [seen.to_json() for seen in runs.seen], "damaged": damaged}, indent=2))
    elif runs.seen:
        say("\n".join(table(runs.seen)))
    elif not runs.damaged:
        say(f"no runs in {root}")
    for found in runs.damaged:
        tell(f"error: {found.error}")
    return CheckFailedError.exit_code if runs.damaged else 0


def table(runs: Sequence[Seen]) -> list[str]:
    """Aligned lines; nothing is cut or folded, as names are there to be copied."""
    rows = [("run", "state", "since", "model", "address", "serve")]
    for seen in runs:
        state = seen.state
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(state.since))
        rows.append((seen.folder.name, _verdict(seen), since, state.model, state.address, str(state.serve.pid)))
    return in_columns(rows)


def _verdict(seen: Seen) -> str:
    return f"{seen.verdict}: {seen.state.reason}" if seen.state.reason else seen.verdict


if __name__ == "__main__":
    main()
