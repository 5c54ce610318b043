"""The scale files that a view gets, from packs that were checked against its base."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolkit.config.schema.views import ScaleValues
from toolkit.errors import CheckFailedError
from toolkit.views.base import Base
from toolkit.views.digest import sha256
from toolkit.views.scales.combine import draft_scales, unit_pack
from toolkit.views.scales.coverage import check_base, cover, united
from toolkit.views.scales.names import ScaleNames, scale_names
from toolkit.views.scales.pack import DRAFT_FILE, SCALE_FILE, ScalePack
from toolkit.views.scales.scale_file import encode_scales

CALIBRATED = "calibrated"


@dataclass(frozen=True)
class OverlayOptions:
    """How packs are taken."""

    strict: bool = True
    needs_draft: bool = False
    """The plan drafts with the checkpoint's own next-token layers, whose scales never fall back."""
    draft: str = CALIBRATED
    """`calibrated`, `prototype:unit` or `prototype:from-layer-N`."""
    scales: ScaleValues = ScaleValues.pack


@dataclass(frozen=True)
class Overlay:
    """Files to add to a view."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    tensors: Mapping[str, str] = field(default_factory=dict)
    """File of each scale."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def overlay_of(base: Base, packs: Sequence[ScalePack], options: OverlayOptions) -> Overlay:
    """The overlay of these packs, in order; empty without packs. CheckFailedError where they do not fit the base."""
    if options.scales is ScaleValues.unit:
        packs = (unit_pack(scale_names(base.tensors), base.index_sha256),)
    elif not packs:
        return Overlay()
    for pack in packs:
        check_base(pack, base.index_sha256, base.tensors)
    names = scale_names(base.tensors)
    scales = united(packs)
    stand_ins = {} if options.draft == CALIBRATED else draft_scales(options.draft, names, scales)
    covered = cover(names, {**stand_ins, **scales}, strict=options.strict, needs_draft=options.needs_draft)
    files, tensors = _files(packs, names, covered.target, covered.draft)
    provenance = {
        "checkpoint_prefix": names.prefix,
        "sources": [
            {"artifact_id": pack.artifact, "sha256": pack.sha256, "tensor_count": len(pack.scales)} for pack in packs
        ],
        "scale_files": {file: sha256(data) for file, data in files.items()},
        "tensor_count": len(tensors),
        "target_tensor_count": len(covered.target),
        "draft_tensor_count": len(covered.draft),
        "draft_source": options.draft,
        "negative_control": options.scales is ScaleValues.unit,
        "unit_fallback": list(covered.fallen),
    }
    notes = tuple(f"{name} is in no pack and falls to 1.0, which clips above 448" for name in covered.fallen)
    return Overlay(files, tensors, provenance, notes)


def _files(
    packs: Sequence[ScalePack], names: ScaleNames, target: Mapping[str, float], draft: Mapping[str, float]
) -> tuple[dict[str, bytes], dict[str, str]]:
    """The scale shards and the file of each scale: a pack's own bytes where one pack fills a shard alone."""
    alone = [pack for pack in packs if pack.scales.keys() & names.target]
    if len(alone) == 1:
        files = {alone[0].file: alone[0].data}
        tensors = dict.fromkeys(alone[0].scales, alone[0].file)
    else:
        files = {SCALE_FILE: encode_scales(target)} if target else {}
        tensors = dict.fromkeys(target, SCALE_FILE)
    rest = {name: value for name, value in draft.items() if name not in tensors}
    if rest and DRAFT_FILE in files:
        raise CheckFailedError(f"two scale packs name their file {DRAFT_FILE}", fix="rename one of the two files")
    if rest:
        files[DRAFT_FILE] = encode_scales(rest)
        tensors |= dict.fromkeys(rest, DRAFT_FILE)
    return files, tensors
