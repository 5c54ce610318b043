"""What a view will be: its links, its own files, its name. No disk is touched here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from toolkit.checkpoint.index import INDEX_FILE
from toolkit.checkpoint.strict_json import StrictJsonError, parse_object
from toolkit.config.schema.views import LinkChoice
from toolkit.errors import CheckFailedError
from toolkit.views.base import Base, BaseFile, index_text
from toolkit.views.digest import digest_of, sha256
from toolkit.views.edits import PROVENANCE_FILE, Edit, apply_edits
from toolkit.views.overlay import Overlay

VIEW_SCHEMA = 1


@dataclass(frozen=True)
class ViewSpec:
    """A view that can be made."""

    name: str
    """The folder's name, NAME-DIGEST12."""
    digest: str
    base: Path
    links: tuple[BaseFile, ...]
    fresh: Mapping[str, bytes]
    notes: tuple[str, ...] = ()
    """What its user should know, such as scales that fall to 1.0."""
    links_by: LinkChoice = LinkChoice.auto
    made_from: Mapping[str, Any] = field(default_factory=dict)
    """What is needed to read the same spec again; no part of the digest."""

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of all files, sorted; without the view's marker."""
        return tuple(sorted({*self.fresh, *(link.path for link in self.links)}))


def view_spec(
    label: str, base: Base, overlay: Overlay, edits: Sequence[Edit], links_by: LinkChoice = LinkChoice.auto
) -> ViewSpec:
    """The view of `base` under an overlay and edits.

    label: the first part of the view's name.
    Raises ConfigurationError for an edit that matches nothing, CheckFailedError where a name is taken.
    """
    fresh = dict(base.own) | apply_edits(base.texts, edits)
    _check_free(base, overlay)
    fresh |= overlay.files
    if overlay.files:
        fresh[INDEX_FILE] = merged_index(base, overlay.tensors)
    fresh[PROVENANCE_FILE] = index_text(_provenance(base, overlay, edits))
    links = tuple(file for file in base.files if file.path not in fresh)
    digest = digest_of(
        {
            "schema": VIEW_SCHEMA,
            "base_index_sha256": base.index_sha256,
            "links": [link.identity for link in links],
            "fresh": {path: sha256(data) for path, data in fresh.items()},
            "overlay": overlay.provenance,
            "edits": [edit.to_data() for edit in edits],
            "options": {"links": links_by.value},
        }
    )
    return ViewSpec(f"{_label(label)}-{digest[:12]}", digest, base.root, links, fresh, overlay.notes, links_by)


def _check_free(base: Base, overlay: Overlay) -> None:
    """CheckFailedError where the base has something of the name of a file that the view makes."""
    taken = sorted({file.path for file in base.files} & overlay.files.keys())
    if taken:
        raise CheckFailedError(
            f"the base already has a file {taken[0]}", where=str(base.root), fix="rename the pack's scale file"
        )
    folders = {parent.as_posix() for file in base.files for parent in PurePosixPath(file.path).parents}
    taken = sorted(folders & {*overlay.files, PROVENANCE_FILE})
    if taken:
        raise CheckFailedError(
            f"the base has a folder {taken[0]}, which is the name of a file of the view",
            where=str(base.root),
            fix="move that folder out of the checkpoint's",
        )


def merged_index(base: Base, tensors: Mapping[str, str]) -> bytes:
    """The base's index with the overlay's tensors (name to file); every entry of the base stays.

    total_size is the bytes of all tensors, as the format says: the public fork adds the scale file's whole length, so
    that its number is larger by the length of that file's header.
    """
    index = parse_object(base.index)
    weight_map = index["weight_map"]
    metadata = index.get("metadata") if isinstance(index.get("metadata"), dict) else {}
    index["weight_map"] = {**weight_map, **tensors}
    index["metadata"] = {**(metadata or {}), "total_size": base.tensor_bytes + 4 * len(tensors)}
    return index_text(index)


def _provenance(base: Base, overlay: Overlay, edits: Sequence[Edit]) -> dict[str, Any]:
    below = base.texts.get(PROVENANCE_FILE)
    return {
        "schema": VIEW_SCHEMA,
        "base_index_sha256": base.index_sha256,
        "loader_contract": f"merged {INDEX_FILE}",
        **overlay.provenance,
        "edits": [edit.to_data() for edit in edits],
        **({"base_view": _below(below, base.root)} if below is not None else {}),
    }


def _below(text: bytes, where: Path) -> dict[str, Any]:
    """The provenance of the view that is the base; CheckFailedError where that file is none."""
    try:
        return parse_object(text)
    except StrictJsonError as error:
        raise CheckFailedError(
            f"{PROVENANCE_FILE} of the checkpoint: {error}",
            where=str(where),
            why="a view writes a file of this name, and tells in it what it was made from",
            fix="move that file out of the checkpoint's folder",
        ) from None


def _label(label: str) -> str:
    return (re.sub(r"[^A-Za-z0-9._-]+", "-", label).strip(".-") or "view")[:80]
