"""Runs that have ended and that nobody asked to keep: which can go, and removing them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from toolkit.counted import counted
from toolkit.errors import CheckFailedError, ConfigurationError
from toolkit.runs.folder import RunFolder
from toolkit.runs.listing import Runs, Seen
from toolkit.views.garbage import Garbage, Inventory, Kept, own_bytes

DAY_S = 86400.0


@dataclass(frozen=True)
class Keep:
    """Which ended runs stay; what neither says a limit for stays whatever it is."""

    newest: int | None = None
    """So many of the runs that ended last."""
    days: float | None = None
    """Those that ended within so many days."""

    def __post_init__(self) -> None:
        """Raise ConfigurationError for a limit that is none."""
        for option, limit in (("keep_runs", self.newest), ("keep_run_days", self.days)):
            if limit is not None and not 0 <= limit < float("inf"):
                raise ConfigurationError(f"{option}={limit} is no number to keep", fix=f"set {option} to 0 or more")

    @property
    def everything(self) -> bool:
        """Whether no limit is set."""
        return self.newest is None and self.days is None


def inventory(runs: Runs, keep: Keep, now: float) -> Inventory:
    """What of these runs can go: ended ones beyond both limits that are set. `now`: seconds since the epoch."""
    stays = [Kept(found.folder.name, "its state is damaged; remove it by hand") for found in runs.damaged]
    ended = []
    for seen in runs.seen:
        reason = _held(seen)
        if reason:
            stays.append(Kept(seen.folder.name, reason))
        else:
            ended.append(seen)
    garbage = []
    for place, seen in enumerate(sorted(ended, key=lambda seen: seen.state.since, reverse=True)):
        days = (now - seen.state.since) / DAY_S
        if keep.newest is not None and place < keep.newest:
            stays.append(Kept(seen.folder.name, f"of the {counted(keep.newest, 'run')} that ended last"))
        elif keep.everything or (keep.days is not None and days <= keep.days):
            stays.append(Kept(seen.folder.name, f"ended {days:.1f} days ago"))
        else:
            garbage.append(Garbage(seen.folder.name, f"ended {days:.1f} days ago", own_bytes(seen.folder.path)))
    return Inventory(tuple(garbage), tuple(stays))


def collect(root: Path, found: Inventory, freed: Callable[[Garbage], None]) -> None:
    """Remove what an inventory found; `freed` is told of each run that is gone.

    A run that has ended never lives again. Raises CheckFailedError where the disk fails: the run is still listed then,
    and the next call goes on with it.
    """
    for garbage in found.garbage:
        try:
            _remove(RunFolder(root / garbage.name))
        except OSError as error:
            why = error.strerror or str(error)
            raise CheckFailedError("a run cannot be removed", where=str(root / garbage.name), why=why) from error
        freed(garbage)


def _held(seen: Seen) -> str:
    """Why a run stays whatever is asked; empty for one that has ended."""
    if seen.folder.path.is_symlink():
        return "a link to a folder elsewhere"
    if seen.alive or seen.state.serve.alive:  # a state is `stopped` also before it is `starting`
        return "alive"
    return ""


def _remove(folder: RunFolder) -> None:
    """Remove a run's files, its state last: what a kill leaves is still seen by `status` and by us."""
    for entry in sorted(folder.path.iterdir(), key=lambda entry: entry == folder.state):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    folder.path.rmdir()
