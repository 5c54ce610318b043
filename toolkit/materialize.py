"""`python -m toolkit.materialize +recipe=NAME`: makes the folder that the engine is given."""

from __future__ import annotations

import json
import sys
import time

from toolkit import interrupt  # noqa: F401  (before all that takes time)
from toolkit.checkpoint.facts import CheckpointFacts
from toolkit.checkpoint.sources import fetch, locate
from toolkit.config.composed import Composed
from toolkit.config.schema.verbs import MaterializeConfig, Output
from toolkit.counted import counted
from toolkit.display.terminal import progress_for
from toolkit.errors import CheckFailedError
from toolkit.streams import say, tell
from toolkit.verb import run_verb
from toolkit.views.materialize import MaterializedView, is_whole, materialize
from toolkit.views.planning import fetch_spec, find_spec
from toolkit.views.spec import ViewSpec
from toolkit.views.store import ViewStore


def main() -> None:
    """Run the verb and leave with its exit code."""
    sys.exit(run_verb("materialize", MaterializeConfig, run))


def run(composed: Composed[MaterializeConfig]) -> int:
    """Make the view, or say what it would be."""
    config, steps = composed.config, progress_for(sys.stderr)
    # A dry run takes what is on this machine, and downloads nothing.
    checkpoint = locate(config.checkpoint) if config.dry_run else fetch(config.checkpoint, progress=steps)
    started = time.perf_counter()
    spec = _spec_as_it_is(config, checkpoint) if config.dry_run else fetch_spec(config, checkpoint, steps)
    store = ViewStore.at(config.views.root)
    view = _would_be(spec, store) if config.dry_run else materialize(spec, store, steps)
    seconds = time.perf_counter() - started
    if config.output is Output.json:
        say(json.dumps(_document(spec, view, seconds, dry_run=config.dry_run), indent=2))
    else:
        _show(spec, view, seconds, dry_run=config.dry_run)
    return 0


def _spec_as_it_is(config: MaterializeConfig, checkpoint: CheckpointFacts) -> ViewSpec:
    spec = find_spec(config, checkpoint) if checkpoint.present else None
    if spec is None:
        missing = checkpoint.missing or "the overlay's scale pack is not on this machine"
        raise CheckFailedError(f"the view is not known yet: {missing}", fix="run it without dry_run=true")
    return spec


def _would_be(spec: ViewSpec, store: ViewStore) -> MaterializedView:
    built = not is_whole(spec, store)
    return MaterializedView(store.path(spec.name), spec.name, spec.digest, built, spec.files, notes=spec.notes)


def _document(spec: ViewSpec, view: MaterializedView, seconds: float, *, dry_run: bool) -> dict[str, object]:
    return {
        "path": str(view.path),
        "name": view.name,
        "digest": view.digest,
        "base": str(spec.base),
        "built": view.built and not dry_run,
        "files": list(view.files),
        "fresh": sorted(spec.fresh),
        "linked": dict(view.linked),
        "bytes_written": view.bytes_written,
        "seconds": round(seconds, 3),
        "notes": list(view.notes),
    }


def _show(spec: ViewSpec, view: MaterializedView, seconds: float, *, dry_run: bool) -> None:
    say(str(view.path))
    if not view.built:
        say("  was there already")
    elif dry_run:
        say(f"  would link {counted(len(spec.links), 'file')} of {spec.base}")
    else:
        ways = ", ".join(f"{count} by {method}" for method, count in view.linked.items())
        say(f"  files of {spec.base}: {ways}; {counted(view.bytes_written, 'byte')} written in {seconds:.2f} s")
    say(f"  its own files: {', '.join(sorted(spec.fresh))}")
    for note in view.notes:
        tell(f"  note: {note}")


if __name__ == "__main__":
    main()
