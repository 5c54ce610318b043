"""What a view will be: its links, its own files, its name. No disk is touched here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolkit.checkpoint.index import INDEX_FILE
from toolkit.checkpoint.strict_json import parse_object
from toolkit.config.schema.views import LinkChoice
from toolkit.errors import CheckFailedError
from toolkit.views.base import PROVENANCE_FILE, Base, BaseFile, index_text
from toolkit.views.digest import digest_of, sha256
from toolkit.views.edits import Edit, apply_edits
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
    taken = {file.path for file in base.files} & overlay.files.keys()
    if taken:
        raise CheckFailedError(
            f"the base already has a file {sorted(taken)[0]}", where=str(base.root), fix="rename the pack's scale file"
        )
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
        **({"base_view": parse_object(below)} if below else {}),
    }


def _label(label: str) -> str:
    return (re.sub(r"[^A-Za-z0-9._-]+", "-", label).strip(".-") or "view")[:80]
