"""Where this process has imported from: each folder that modules were found below, whatever put it on the path."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from toolkit.planning.worker_report import ImportRoot
from toolkit.plugin.generated import generated_folders

NAMED = 8
"""Modules of a folder that are named; a site-packages folder has hundreds."""


def import_roots(modules: Mapping[str, object], environment: Mapping[str, str]) -> tuple[ImportRoot, ...]:
    """The folders that modules with a file came from, in order; no module's own code is run.

    modules: as `sys.modules`. A submodule counts where its file lies, so that one out of another folder than its
    package's is seen. environment: this process's variables, which say where libraries generate modules of their own.
    """
    caches = generated_folders(environment)
    found: dict[tuple[str, bool], set[str]] = {}
    for name, module in tuple(modules.items()):
        file = _file(module)
        if file and not file.startswith("<"):
            path = str(Path(file).absolute())
            folder, label = _root(name, path)
            cache = _generated_in(path, name, caches)
            found.setdefault((cache or folder, cache is not None), set()).add(label)
    return tuple(
        ImportRoot(folder, tuple(sorted(names)[:NAMED]), len(names), generated)
        for (folder, generated), names in sorted(found.items())
    )


def _file(module: object) -> str | None:
    """The module's own `__file__`: a lazy module is not loaded for it, and a class attribute (`torch.ops`) is none."""
    with suppress(AttributeError):
        file = object.__getattribute__(module, "__dict__").get("__file__")
        return file if isinstance(file, str) else None
    return None


def _root(name: str, file: str) -> tuple[str, str]:
    """The folder on the import path that a module's name and file tell, and what to call the module there."""
    folder, _, last = file.rpartition("/")
    stem = last.partition(".")[0]
    place, below = folder if stem == "__init__" else f"{folder}/{stem}", "/" + name.replace(".", "/")
    if place.endswith(below):
        return place.removesuffix(below) or "/", name.partition(".")[0]
    return folder or "/", name


def _generated_in(file: str, name: str, generated: Mapping[str, str]) -> str | None:
    """The folder of generated modules that a module lies scattered below; None for one of the import path."""
    own = name.partition(".")[0]
    fits = (folder for folder, package in generated.items() if package in ("", own) and file.startswith(f"{folder}/"))
    return next(fits, None)
