"""Where this process has imported from: each folder that modules were found below, whatever put it on the path."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from toolkit.planning.worker_report import ImportRoot

NAMED = 8
"""Modules of a folder that are named; a site-packages folder has hundreds."""
CACHES = ("VLLM_CACHE_ROOT", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
"""Variables with a folder of generated modules, which lie scattered below it."""


def import_roots(modules: Mapping[str, object], environment: Mapping[str, str]) -> tuple[ImportRoot, ...]:
    """The folders that modules with a file came from, in order; no module's own code is run.

    modules: as `sys.modules`. A submodule counts where its file lies, so that one out of another folder than its
    package's is seen.
    """
    caches = [str(Path(folder).absolute()) for name in CACHES if (folder := environment.get(name))]
    found: dict[str, set[str]] = {}
    for name, module in tuple(modules.items()):
        file = _file(module)
        if file and not file.startswith("<"):
            folder, label = _root(name, str(Path(file).absolute()), caches)
            found.setdefault(folder, set()).add(label)
    return tuple(
        ImportRoot(folder, tuple(sorted(found[folder])[:NAMED]), len(found[folder])) for folder in sorted(found)
    )


def _file(module: object) -> str | None:
    """The module's own `__file__`: a lazy module is not loaded for it, and a class attribute (`torch.ops`) is none."""
    with suppress(AttributeError):
        file = object.__getattribute__(module, "__dict__").get("__file__")
        return file if isinstance(file, str) else None
    return None


def _root(name: str, file: str, caches: Collection[str]) -> tuple[str, str]:
    """The folder on the import path that a module's name and file tell, and what to call the module there."""
    folder, _, last = file.rpartition("/")
    stem = last.partition(".")[0]
    place, below = folder if stem == "__init__" else f"{folder}/{stem}", "/" + name.replace(".", "/")
    if place.endswith(below):
        return place.removesuffix(below) or "/", name.partition(".")[0]
    cache = next((cache for cache in caches if file.startswith(f"{cache}/")), None)
    return cache or folder or "/", name
