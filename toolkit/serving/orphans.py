"""What a killed run left behind: it holds memory and the GPU, and the next start would fail without a visible cause."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from toolkit.engine import sweep
from toolkit.linux import proc
from toolkit.runs.folder import RunFolder
from toolkit.runs.state import read_state

PATIENCE_S = 10.0


def dead_runs(processes: Sequence[proc.Process]) -> tuple[Path, ...]:
    """Folders of our runs whose `serve` and warden are gone while engine processes remain.

    Strangers without a server are told by the rule orphaned-engine. This process and its ancestors are left out.
    """
    own = set(_ancestors(processes))
    runs: dict[Path, None] = {}
    for process in processes:
        if process.dead or process.pid in own:
            continue
        folder = proc.marker_of(process.pid)
        if folder is not None and _is_dead(Path(folder)):
            runs[Path(folder)] = None
    return tuple(runs)


def clear(runs: Iterable[Path]) -> dict[str, tuple[proc.Process, ...]]:
    """Kill what dead runs left; by run, what survived even that."""
    return {folder.name: sweep.sweep(sweep.Scent(str(folder)), PATIENCE_S) for folder in runs}


def _is_dead(folder: Path) -> bool:
    """Whether a run is known, and known to have neither `serve` nor warden any more."""
    state = read_state(RunFolder(folder).state)
    return state is not None and not state.serve.alive and not (state.warden is not None and state.warden.alive)


def _ancestors(processes: Sequence[proc.Process]) -> Iterable[int]:
    parents = {process.pid: process.parent for process in processes}
    pid = os.getpid()
    while pid:
        yield pid
        pid = parents.get(pid, 0)
