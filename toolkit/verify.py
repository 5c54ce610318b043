"""`python -m toolkit.verify`: reads the views again, byte by byte, and repairs what is theirs."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from toolkit import interrupt  # noqa: F401  (before all that takes time)
from toolkit.checkpoint.progress import Progress
from toolkit.config.composed import Composed
from toolkit.config.schema.verbs import Output, VerifyConfig
from toolkit.counted import counted
from toolkit.display.terminal import progress_for
from toolkit.errors import ConfigurationError, ToolkitError
from toolkit.streams import say, tell
from toolkit.verb import run_verb
from toolkit.views.inspect import Owner
from toolkit.views.store import ViewStore
from toolkit.views.verify import Verdict, repair, verify

FAILED = 5


def main() -> None:
    """Run the verb and leave with its exit code."""
    sys.exit(run_verb("verify", VerifyConfig, run))


def run(composed: Composed[VerifyConfig]) -> int:
    """Verify the chosen views; 5 where a fault is left."""
    config, steps = composed.config, progress_for(sys.stderr)
    store = ViewStore.at(config.views.root)
    verdicts, repaired = [], []
    for name in _chosen(store, config.view):
        verdict = verify(store, name, steps, fast=config.fast, threads=config.threads)
        if config.repair and _mended(store, verdict, steps):
            repaired.append(name)
            verdict = verify(store, name, steps, fast=True, threads=config.threads)
        verdicts.append(verdict)
    if config.output is Output.json:
        say(json.dumps(_document(store, verdicts, repaired), indent=2, default=lambda item: item.value))
    else:
        _show(store, verdicts, repaired)
    return FAILED if any(verdict.faults for verdict in verdicts) else 0


def _mended(store: ViewStore, verdict: Verdict, steps: Progress) -> bool:
    """Whether the view was made again; where that cannot be, the other views still get their turn."""
    if all(fault.owner is Owner.base for fault in verdict.faults):
        return False
    try:
        repair(store, verdict.name, steps)
    except ToolkitError as error:
        tell(f"error: {error}")
        return False
    return True


def _chosen(store: ViewStore, name: str | None) -> tuple[str, ...]:
    names = store.names()
    if name is None:
        return names
    if name not in names:
        raise ConfigurationError(
            f"the view store has no view {name!r}", where=str(store.root), fix=f"use {', '.join(names) or 'views.root'}"
        )
    return (name,)


def _document(store: ViewStore, verdicts: list[Verdict], repaired: list[str]) -> dict[str, object]:
    views = [
        {**asdict(verdict), "ok": not verdict.faults, "repaired": verdict.name in repaired} for verdict in verdicts
    ]
    return {"root": str(store.root), "ok": not any(verdict.faults for verdict in verdicts), "views": views}


def _show(store: ViewStore, verdicts: list[Verdict], repaired: list[str]) -> None:
    if not verdicts:
        say(f"no views in {store.root}")
    for verdict in verdicts:
        state = counted(len(verdict.faults), "fault") if verdict.faults else "whole"
        made = ", made again" if verdict.name in repaired else ""
        read = f"{counted(verdict.files, 'file')}, {counted(verdict.bytes_read, 'byte')} read"
        say(f"{verdict.name}: {state}{made}; {read}")
        for fault in verdict.faults:
            path = fault.path.encode(errors="backslashreplace").decode()  # a name may hold any bytes
            say(f"  {path} (the {fault.owner.value}'s): {fault.reason}")
        if verdict.recorded:
            files = counted(len(verdict.recorded), "file")
            say(f"  first hash of {files} of the base, which later ones are compared with")
    if any(fault.owner is Owner.view for verdict in verdicts for fault in verdict.faults):
        tell("  fix: add repair=true, which makes again what is the view's")
    if any(fault.owner is Owner.base for verdict in verdicts for fault in verdict.faults):
        tell("  fix: bring the checkpoint's files back; the toolkit never writes to them")


if __name__ == "__main__":
    main()
