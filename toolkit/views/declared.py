"""model_views/*.yaml: views as data. A base at a revision, overlays in order, edits, and the tensors to expect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit.config.search_path import PACKAGE
from toolkit.errors import ConfigurationError
from toolkit.views.digest import SHA256
from toolkit.views.edits import Edit, read_edit
from toolkit.views.scales.source import PackSource

_KEYS = {"description", "base", "overlays", "draft_scales", "edits", "expected_tensors"}
_BASE_KEYS = {"repository", "revision", "index_sha256"}
_OVERLAY_KEYS = {"path", "repository", "revision", "scale_sha256"}


@dataclass(frozen=True)
class DeclaredView:
    """A view that somebody published."""

    name: str
    repository: str | None
    revision: str | None
    index_sha256: str
    overlays: tuple[PackSource, ...]
    draft_scales: str
    edits: tuple[Edit, ...]
    expected_tensors: tuple[str, ...]
    """Scales that the merged index must hold."""


def shipped_views() -> Path:
    """The folder of views that comes with the toolkit."""
    installed = PACKAGE / "model_views"
    return installed if installed.is_dir() else PACKAGE.parent / "model_views"


def find_declared(name: str, folder: Path | None = None) -> DeclaredView:
    """The declared view of that name; ConfigurationError where there is none or it is not spelled as one."""
    folder = folder or shipped_views()
    known = sorted(path.stem for path in folder.glob("*.yaml"))
    if name not in known:
        raise ConfigurationError(f"no view is declared as {name!r}", where=str(folder), fix=f"use {', '.join(known)}")
    return read_declared(folder / f"{name}.yaml")


def read_declared(path: Path) -> DeclaredView:
    """The view that a file declares."""
    from omegaconf import OmegaConf
    from yaml import YAMLError

    where = str(path)
    try:
        data = OmegaConf.to_container(OmegaConf.load(path), resolve=False)  # its loader refuses duplicate keys
    except (OSError, YAMLError, ValueError) as error:
        raise ConfigurationError(f"{path.name} cannot be read: {str(error).splitlines()[0]}", where=where) from None
    if not isinstance(data, dict):
        raise ConfigurationError(f"{path.name} holds no keys", where=where)
    _known(data, _KEYS, path.name, where)
    base = data.get("base") or {}
    _known(base, _BASE_KEYS, "base", where)
    overlays = data.get("overlays") or []
    for overlay in overlays:
        _known(overlay, _OVERLAY_KEYS, "an overlay", where)
    return DeclaredView(
        path.stem,
        base.get("repository"),
        base.get("revision"),
        _sha256(base.get("index_sha256"), "base.index_sha256", where),
        tuple(_overlay(overlay, path.parent, where) for overlay in overlays),
        str(data.get("draft_scales", "calibrated")),
        tuple(read_edit(edit) for edit in data.get("edits") or []),
        tuple(str(name) for name in data.get("expected_tensors") or []),
    )


def _overlay(data: Mapping[Any, Any], folder: Path, where: str) -> PackSource:
    path = data.get("path")
    source = PackSource(
        str(folder / path) if path else None,
        data.get("repository"),
        data.get("revision"),
        _sha256(data.get("scale_sha256"), "scale_sha256", where),
    )
    source.find()  # a place that is spelled wrongly is told now
    return source


def _known(data: Any, keys: set[str], what: str, where: str) -> None:
    if not isinstance(data, Mapping):
        raise ConfigurationError(f"{what} must hold keys", where=where)
    unknown = sorted(str(key) for key in data if key not in keys)
    if unknown:
        raise ConfigurationError(f"{what} has no key '{unknown[0]}'", where=where, fix=f"use {', '.join(sorted(keys))}")


def _sha256(value: Any, key: str, where: str) -> str:
    if not isinstance(value, str) or not SHA256.fullmatch(value):
        raise ConfigurationError(f"{key}={value!r} is no SHA-256: 64 digits 0-9a-f are needed", where=where)
    return value
