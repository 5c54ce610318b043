"""What of the store nobody needs, and removing it: a view goes with one rename, its files after that."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import CheckFailedError
from toolkit.storage import disk
from toolkit.storage.lock import locked_if_free
from toolkit.views.hash_log import log_files
from toolkit.views.lease import unused
from toolkit.views.marker import read_marker
from toolkit.views.store import LEFTOVER, ViewStore, store_fault, view_bases


@dataclass(frozen=True)
class Garbage:
    """A folder that can go."""

    name: str
    """Of the folder in the store, or among the runs."""
    reason: str
    num_bytes: int
    """Of its own files; what it links to is the base's and stays."""


@dataclass(frozen=True)
class Kept:
    """A folder that stays."""

    name: str
    reason: str


@dataclass(frozen=True)
class Inventory:
    """All of a store, or all runs, sorted into what can go and what stays."""

    garbage: tuple[Garbage, ...]
    kept: tuple[Kept, ...]


def inventory(store: ViewStore, *, keep_current: bool = False) -> Inventory:
    """Look through the store and change nothing; only folders with our marker, and leftovers of builders, can go."""
    try:
        return _inventory(store, keep_current) if store.root.is_dir() else Inventory((), ())
    except OSError as error:
        raise store_fault(store, error) from error


def _inventory(store: ViewStore, keep_current: bool) -> Inventory:
    stays: dict[str, str] = {}
    names = store.names()
    for name in names:
        if keep_current and name == store.current_name():
            stays[name] = "`current` points to it"
        elif read_marker(store.path(name)) is None:
            stays[name] = "its marker cannot be read; materialize it again, or remove it by hand"
        elif not _free(store, name):
            stays[name] = "in use"
    stays |= _bases_of(store, stays)
    garbage = [Garbage(name, "nobody uses it", own_bytes(store.path(name))) for name in names if name not in stays]
    kept = [Kept(name, reason) for name, reason in stays.items()]
    for entry in sorted(os.scandir(store.root), key=lambda entry: entry.name):
        left = LEFTOVER.fullmatch(entry.name)
        if left and _free(store, left["name"]):
            reason = "left by a process that died"
            garbage.append(Garbage(entry.name, reason, own_bytes(Path(entry.path))))
        elif left:
            kept.append(Kept(entry.name, "being built or removed"))
        elif entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".") and entry.name not in names:
            kept.append(Kept(entry.name, "no view of ours: it has no marker"))
    return Inventory(tuple(garbage), tuple(kept))


def _free(store: ViewStore, name: str) -> bool:
    """Whether nobody builds or serves the view; asks without waiting, and makes no file."""
    for lock in (store.lock_file(name), store.lock_file(name, "lease")):
        if lock.exists():
            with locked_if_free(lock) as free:
                if not free:
                    return False
    return True


def _bases_of(store: ViewStore, stays: dict[str, str]) -> dict[str, str]:
    """Views that other views, which stay, link to."""
    bases = view_bases(store)
    by_path = {store.path(name): name for name in bases}
    found: dict[str, str] = {}
    pending = list(stays)
    while pending:
        name = pending.pop()
        below = by_path.get(bases.get(name, Path()))
        if below and below not in stays and below not in found:
            found[below] = f"the base of {name}"
            pending.append(below)
    return found


def own_bytes(folder: Path) -> int:
    """Bytes of the files below a folder; of a link, its own."""
    files = (Path(parent) / name for parent, _, names in os.walk(folder) for name in names)
    return sum(file.lstat().st_size for file in files)


def collect(store: ViewStore, found: Inventory, freed: Callable[[Garbage], None]) -> tuple[Kept, ...]:
    """Remove what an inventory found; `freed` is told of each folder that is gone.

    Returns what came into use meanwhile and stays. Raises CheckFailedError where the disk fails: each view is whole or
    gone then, and the next run goes on.
    """
    busy: list[Kept] = []
    try:
        if store.root.is_dir():
            store.prepare()
        for garbage in found.garbage:
            left = LEFTOVER.fullmatch(garbage.name)
            if _remove(store, left["name"] if left else garbage.name, garbage.name):
                freed(garbage)
            else:
                busy.append(Kept(garbage.name, "came into use"))
        if store.root.is_dir():
            _drop_asides(store)
    except OSError as error:
        raise store_fault(store, error) from error
    return tuple(busy)


def _remove(store: ViewStore, view: str, name: str) -> bool:
    """Remove one folder under its view's locks; False where somebody holds one."""
    with locked_if_free(store.lock_file(view)) as idle, unused(store, view) as free:
        if not idle or not free:
            return False
        if name != view:
            disk.remove(store.root / name)
            return True
        _forget_current(store, name)
        disk.remove(store.removing(name))
        if read_marker(store.path(name)) is None:
            raise CheckFailedError(f"{name} lost its marker while garbage was collected", where=str(store.root))
        store.path(name).rename(store.removing(name))
        disk.sync(store.root)
        disk.remove(store.removing(name))
        for file in log_files(store, name):
            disk.remove(file)
    return True


def _forget_current(store: ViewStore, name: str) -> None:
    """Take `current` away before the view that it points to, so that it never leads nowhere."""
    with store.exclusive():
        if store.current_name() == name:
            disk.remove(store.current)


def _drop_asides(store: ViewStore) -> None:
    """Remove a new `current` or tag that a process died over, and a `current` that leads nowhere."""
    with store.exclusive():
        for name in (".current.new", ".CACHEDIR.TAG.new"):
            disk.remove(store.root / name)
        current = store.current_name()
        if current is not None and not os.path.lexists(store.path(current)):
            disk.remove(store.current)
