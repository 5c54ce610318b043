"""From a deployment's configuration to its view: what `plan` shows and `serve` makes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from toolkit.checkpoint.facts import CheckpointFacts
from toolkit.checkpoint.progress import Progress
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.config.schema.views import ScaleValues
from toolkit.errors import ConfigurationError
from toolkit.planning.plan import View
from toolkit.views.declared import DeclaredView, find_declared
from toolkit.views.inputs import PackInput, ViewInputs, read_spec
from toolkit.views.materialize import served
from toolkit.views.scales.source import PackSource, configured_pack
from toolkit.views.spec import ViewSpec
from toolkit.views.store import ViewStore


def plan_view(config: DeploymentConfig, checkpoint: CheckpointFacts) -> View:
    """The folder that the engine will be given, on this machine as it is; nothing is made.

    Without an overlay, edits or the like it is the checkpoint's own folder. Raises ToolkitError where the overlay and
    the checkpoint do not fit together.
    """
    if not checkpoint.present or checkpoint.root is None:
        return View(None, None)
    if not wants_view(config):
        return View(str(checkpoint.root), None, tuple(sorted(checkpoint.files)))
    spec = find_spec(config, checkpoint)
    return View(None, None) if spec is None else view_of(config, spec)


def view_of(config: DeploymentConfig, spec: ViewSpec) -> View:
    """Where a view lies or would lie."""
    return View(str(ViewStore.at(config.views.root).path(spec.name)), spec.digest, spec.files)


def wants_view(config: DeploymentConfig) -> bool:
    """Whether the deployment changes anything of the checkpoint's folder."""
    views = config.views
    changed = views.declared or views.edits or views.scales is ScaleValues.unit
    return bool(changed) or configured_pack(config.overlay) is not None


def find_spec(config: DeploymentConfig, checkpoint: CheckpointFacts) -> ViewSpec | None:
    """The deployment's view; None while a scale pack of it is not on this machine."""
    folders = [source.find() for source in _sources(config)]
    found = [folder for folder in folders if folder is not None]
    return read_spec(_inputs(config, checkpoint, found), checkpoint) if len(found) == len(folders) else None


def fetch_spec(config: DeploymentConfig, checkpoint: CheckpointFacts, progress: Progress) -> ViewSpec:
    """The deployment's view, its scale packs downloaded where they are not on this machine."""
    folders = [source.fetch(progress) for source in _sources(config)]
    return read_spec(_inputs(config, checkpoint, folders), checkpoint)


@contextmanager
def leased_view(config: DeploymentConfig, checkpoint: CheckpointFacts, progress: Progress) -> Iterator[View]:
    """What `plan_view` told, made where it is not there, and kept from `gc` until the context ends.

    Raises ToolkitError where a scale pack cannot be brought here, does not fit, or the view cannot be made.
    """
    if not wants_view(config):
        yield plan_view(config, checkpoint)
        return
    spec = fetch_spec(config, checkpoint, progress)
    with served(spec, ViewStore.at(config.views.root), progress) as view:
        yield View(str(view.path), view.digest, view.files)


def _declared(config: DeploymentConfig) -> DeclaredView | None:
    return find_declared(config.views.declared) if config.views.declared else None


def _sources(config: DeploymentConfig) -> tuple[PackSource, ...]:
    """The scale packs, in order; the unit control takes none."""
    if config.views.scales is ScaleValues.unit:
        return ()
    declared, pack = _declared(config), configured_pack(config.overlay)
    if declared is not None:
        _check_alone(declared, pack)
        return declared.overlays
    return (pack,) if pack is not None else ()


def _check_alone(declared: DeclaredView, pack: PackSource | None) -> None:
    if pack is not None and pack not in declared.overlays:
        raise ConfigurationError(
            f"both views.declared={declared.name} and an overlay of its own are set",
            fix="set overlay=none, as the declared view names its overlays itself",
        )


def _inputs(config: DeploymentConfig, checkpoint: CheckpointFacts, folders: Sequence[Path]) -> ViewInputs:
    declared, views, sources = _declared(config), config.views, _sources(config)
    if declared is not None:
        _check_revision(config, declared)
    packs = [PackInput(os.fspath(path), source.scale_sha256) for path, source in zip(folders, sources, strict=True)]
    edits = tuple(edit.to_data() for edit in declared.edits) if declared else ()
    draft = views.draft_scales
    demanded = config.overlay.base_index_sha256 if sources else None
    return ViewInputs(
        label=checkpoint.name,
        base=str(checkpoint.root),
        packs=tuple(packs),
        edits=(*edits, *views.edits),
        base_index_sha256=declared.index_sha256 if declared else demanded,
        expected_tensors=declared.expected_tensors if declared and sources else (),
        strict=config.overlay.strict,
        needs_draft=config.speculative.method == "mtp",
        draft_scales=declared.draft_scales if declared and draft == "calibrated" else draft,
        scales=views.scales.value,
        links=views.links.value,
    )


def _check_revision(config: DeploymentConfig, declared: DeclaredView) -> None:
    revision = config.checkpoint.source.revision
    if revision and declared.revision and revision != declared.revision:
        raise ConfigurationError(
            f"the view {declared.name} is declared for revision {declared.revision}, not {revision}",
            where="checkpoint.source.revision",
            fix="use that revision, or a view that is declared for yours",
        )
