"""`python -m toolkit.gc`: removes the views that nobody uses, and ended runs where asked, after it has said which."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from toolkit import interrupt  # noqa: F401  (before all that takes time)
from toolkit.config.composed import Composed
from toolkit.config.schema.verbs import GcConfig, Output
from toolkit.counted import counted
from toolkit.runs import garbage as run_garbage
from toolkit.runs.folder import runs_root
from toolkit.runs.listing import look
from toolkit.streams import say
from toolkit.verb import run_verb
from toolkit.views.garbage import Garbage, Inventory, Kept, collect, inventory
from toolkit.views.store import ViewStore


@dataclass(frozen=True)
class Cleaned:
    """A folder that was looked through, and what was removed of it."""

    root: Path
    found: Inventory
    freed: tuple[Garbage, ...] = ()
    busy: tuple[Kept, ...] = ()


def main() -> None:
    """Run the verb and leave with its exit code."""
    sys.exit(run_verb("gc", GcConfig, run))


def run(composed: Composed[GcConfig]) -> int:
    """List what can go, then remove it."""
    config = composed.config
    keep = run_garbage.Keep(config.keep_runs, config.keep_run_days)
    views = _clean_views(config)
    runs = None if keep.everything else _clean_runs(config, keep)
    if config.output is Output.text:
        _result([views] if runs is None else [views, runs], dry_run=config.dry_run)
    else:
        asked = {} if runs is None else {"runs": _document(runs)}
        say(json.dumps({**_document(views), **asked, "dry_run": config.dry_run}, indent=2))
    return 0


def _clean_views(config: GcConfig) -> Cleaned:
    store = ViewStore.at(config.views.root)
    found = inventory(store, keep_current=config.keep_current)
    _list(config, store.root, found)
    if config.dry_run:
        return Cleaned(store.root, found)
    freed: list[Garbage] = []
    busy = collect(store, found, freed.append)
    return Cleaned(store.root, found, tuple(freed), busy)


def _clean_runs(config: GcConfig, keep: run_garbage.Keep) -> Cleaned:
    root = runs_root(config.runs)
    found = run_garbage.inventory(look(root), keep, time.time())
    _list(config, root, found)
    if config.dry_run:
        return Cleaned(root, found)
    freed: list[Garbage] = []
    run_garbage.collect(root, found, freed.append)
    return Cleaned(root, found, tuple(freed))


def _list(config: GcConfig, root: Path, found: Inventory) -> None:
    if config.output is not Output.text:
        return
    say(f"{root}:")
    for garbage in found.garbage:
        say(f"  free {garbage.name}: {garbage.reason}, {garbage.num_bytes:,} bytes")
    for kept in found.kept:
        say(f"  keep {kept.name}: {kept.reason}")


def _result(cleaned: list[Cleaned], *, dry_run: bool) -> None:
    for kept in (kept for part in cleaned for kept in part.busy):
        say(f"  kept {kept.name}: {kept.reason}")
    if dry_run:
        say("nothing removed, as dry_run=true")
        return
    freed = [garbage for part in cleaned for garbage in part.freed]
    num_bytes = sum(garbage.num_bytes for garbage in freed)
    say(f"{counted(len(freed), 'folder')} removed, {counted(num_bytes, 'byte')} freed")


def _document(cleaned: Cleaned) -> dict[str, object]:
    return {
        "root": str(cleaned.root),
        "garbage": [asdict(garbage) for garbage in cleaned.found.garbage],
        "freed": [garbage.name for garbage in cleaned.freed],
        "kept": [asdict(kept) for kept in (*cleaned.found.kept, *cleaned.busy)],
    }


if __name__ == "__main__":
    main()
