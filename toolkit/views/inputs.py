"""What a view is made from, as plain data: kept in its marker, so that `verify` can make it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from toolkit.checkpoint.facts import CheckpointFacts
from toolkit.checkpoint.local import read_facts
from toolkit.config.schema.views import LinkChoice, ScaleValues
from toolkit.errors import CheckFailedError, Rejected
from toolkit.views.base import Base, read_base
from toolkit.views.edits import edited_files, read_edit
from toolkit.views.overlay import Overlay, OverlayOptions, overlay_of
from toolkit.views.plain import checked
from toolkit.views.scales.pack import ScalePack, read_pack
from toolkit.views.spec import ViewSpec, view_spec


@dataclass(frozen=True)
class PackInput:
    """A scale pack on this machine."""

    folder: str
    scale_sha256: str | None = None
    """What its scale file must have; None for any."""


@dataclass(frozen=True)
class ViewInputs:
    """Everything that decides what a view holds, besides the contents of the files named here."""

    label: str
    base: str
    """The checkpoint's folder."""
    packs: tuple[PackInput, ...] = ()
    edits: tuple[Mapping[str, Any], ...] = ()
    base_index_sha256: str | None = None
    """What the base's index must have; None for any."""
    expected_tensors: tuple[str, ...] = ()
    strict: bool = True
    needs_draft: bool = False
    draft_scales: str = "calibrated"
    scales: str = ScaleValues.pack.value
    links: str = LinkChoice.auto.value

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> ViewInputs | None:
        """The inputs that a marker recorded; None where it records none that can be used."""
        try:
            lists = {name: tuple(data[name]) for name in ("edits", "expected_tensors")}
            packs = tuple(PackInput(**checked(PackInput, pack)) for pack in data["packs"])
            words = {"scales": ScaleValues(data["scales"]).value, "links": LinkChoice(data["links"]).value}
            return cls(**{**checked(cls, data), **lists, **words, "packs": packs})
        except (TypeError, KeyError, ValueError):
            return None


def read_spec(inputs: ViewInputs, checkpoint: CheckpointFacts | None = None) -> ViewSpec:
    """The view that these inputs give now; reads the base's and the packs' small files and writes nothing.

    checkpoint: the base's facts, where they have been read already.
    Raises ToolkitError where base, packs and edits do not fit together.
    """
    edits = [read_edit(edit) for edit in inputs.edits]
    facts = checkpoint or read_facts(Path(inputs.base), inputs.label)
    base = read_base(facts, edited_files(edits))
    if inputs.base_index_sha256 not in (None, base.index_sha256):
        raise CheckFailedError(
            "Base checkpoint revision does not match the scale pack",
            where=str(base.root),
            why=f"index {inputs.base_index_sha256} is demanded, the checkpoint's is {base.index_sha256}",
            fix="use the checkpoint's revision that the overlay names, or another overlay",
        )
    options = OverlayOptions(inputs.strict, inputs.needs_draft, inputs.draft_scales, ScaleValues(inputs.scales))
    overlay = overlay_of(base, [_pack(pack) for pack in inputs.packs], options)
    _check_expected(inputs.expected_tensors, base, overlay)
    spec = view_spec(inputs.label, base, overlay, edits, LinkChoice(inputs.links))
    return replace(spec, made_from=asdict(replace(inputs, base=str(base.root))))


def _pack(wanted: PackInput) -> ScalePack:
    pack = read_pack(Path(wanted.folder))
    if wanted.scale_sha256 not in (None, pack.sha256):
        raise CheckFailedError(
            f"{pack.file}: the SHA-256 is not the one that the overlay names",
            where=wanted.folder,
            why=f"the file has {pack.sha256}, the overlay says {wanted.scale_sha256}",
            fix="take the scale pack anew from where it was published",
        )
    return pack


def _check_expected(expected: tuple[str, ...], base: Base, overlay: Overlay) -> None:
    absent = [name for name in expected if name not in overlay.tensors and name not in base.tensors]
    if absent:
        raise CheckFailedError(
            f"the view lacks {absent[0]}, which its declaration expects",
            where=str(base.root),
            fix="use the packs that the declaration names",
            rejected=[Rejected(name, "absent") for name in absent[1:]],
        )
