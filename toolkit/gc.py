"""`python -m toolkit.gc`: removes the views that nobody uses, after it has said which."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from toolkit import interrupt  # noqa: F401  (before all that takes time)
from toolkit.config.composed import Composed
from toolkit.config.schema.verbs import GcConfig, Output
from toolkit.counted import counted
from toolkit.streams import say
from toolkit.verb import run_verb
from toolkit.views.garbage import Garbage, Inventory, Kept, collect, inventory
from toolkit.views.store import ViewStore


def main() -> None:
    """Run the verb and leave with its exit code."""
    sys.exit(run_verb("gc", GcConfig, run))


def run(composed: Composed[GcConfig]) -> int:
    """List what can go, then remove it."""
    config = composed.config
    store = ViewStore.at(config.views.root)
    found = inventory(store, keep_current=config.keep_current)
    text = config.output is Output.text
    if text:
        _list(store, found)
    freed: list[Garbage] = []
    busy: tuple[Kept, ...] = ()
    if not config.dry_run:
        busy = collect(store, found, freed.append)
    if text:
        _result(freed, busy, dry_run=config.dry_run)
    else:
        say(json.dumps(_document(store, found, freed, busy, dry_run=config.dry_run), indent=2))
    return 0


def _list(store: ViewStore, found: Inventory) -> None:
    say(f"{store.root}:")
    for garbage in found.garbage:
        say(f"  free {garbage.name}: {garbage.reason}, {garbage.num_bytes:,} bytes")
    for kept in found.kept:
        say(f"  keep {kept.name}: {kept.reason}")


def _result(freed: list[Garbage], busy: tuple[Kept, ...], *, dry_run: bool) -> None:
    for kept in busy:
        say(f"  kept {kept.name}: {kept.reason}")
    if dry_run:
        say("nothing removed, as dry_run=true")
    else:
        num_bytes = sum(garbage.num_bytes for garbage in freed)
        say(f"{counted(len(freed), 'folder')} removed, {counted(num_bytes, 'byte')} freed")


def _document(
    store: ViewStore, found: Inventory, freed: list[Garbage], busy: tuple[Kept, ...], *, dry_run: bool
) -> dict[str, object]:
    return {
        "root": str(store.root),
        "dry_run": dry_run,
        "garbage": [asdict(garbage) for garbage in found.garbage],
        "freed": [garbage.name for garbage in freed],
        "kept": [asdict(kept) for kept in (*found.kept, *busy)],
    }


if __name__ == "__main__":
    main()
