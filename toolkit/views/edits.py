"""Changes to JSON files of a checkpoint, each of which must change something."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from toolkit.checkpoint.index import INDEX_FILE
from toolkit.checkpoint.strict_json import StrictJsonError, parse
from toolkit.errors import ConfigurationError

_KEYS = {"file", "op", "path", "value", "was"}
_OPERATIONS = ("replace", "add", "remove")
PROVENANCE_FILE = "kvscales-provenance.json"
DEEPEST = 64
"""Levels of an edit's value."""
MADE = (INDEX_FILE, PROVENANCE_FILE)
"""Files that every view with scales makes by itself."""


@dataclass(frozen=True)
class Edit:
    """One change, in the manner of RFC 6902.

    op: `replace` a value that is there, `add` a key that is not there yet (or insert into a list; `-` appends),
    or `remove` what is there.
    """

    file: str
    """Path relative to the checkpoint's folder."""
    op: str
    path: str
    """A JSON pointer (RFC 6901), such as `/text_config/dtype`."""
    value: Any = None
    was: tuple[Any, ...] = ()
    """The value that must be there before; empty for any."""

    def to_data(self) -> dict[str, Any]:
        """The edit as `read_edit` takes it."""
        data = {"file": self.file, "op": self.op, "path": self.path}
        if self.op != "remove":
            data["value"] = self.value
        return data | ({"was": self.was[0]} if self.was else {})


def read_edit(data: Any) -> Edit:
    """An edit from plain data; ConfigurationError where it is not spelled as one."""
    where = f"edit {_shown(data)}"
    if not isinstance(data, Mapping) or not {"file", "op", "path"} <= data.keys():
        raise ConfigurationError("an edit needs file, op and path", where=where)
    unknown = sorted(map(str, data.keys() - _KEYS))
    if unknown:
        raise ConfigurationError(
            f"an edit has no key '{unknown[0]}'", where=where, fix="use file, op, path, value and was"
        )
    if data["op"] not in _OPERATIONS:
        raise ConfigurationError(f"an edit's op is {', '.join(_OPERATIONS)}, not {data['op']!r}", where=where)
    if ("value" in data) == (data["op"] == "remove"):
        raise ConfigurationError(f"op {data['op']} {'takes no' if 'value' in data else 'needs a'} value", where=where)
    _check_file(data["file"], where)
    _check_pointer(data["path"], where)
    for key in data.keys() & {"value", "was"}:
        if not _is_json(data[key]):
            raise ConfigurationError(f"an edit's {key} is nothing that JSON can hold", where=where)
    was = (data["was"],) if "was" in data else ()
    return Edit(data["file"], data["op"], data["path"], data.get("value"), was)


def _shown(data: Any) -> str:
    try:
        text = json.dumps(data, default=str)
    except (TypeError, ValueError, RecursionError):
        return "that JSON cannot hold"
    return text if len(text) <= 300 else f"{text[:300]}..."


def _is_json(value: Any) -> bool:
    """Whether the value can be written and read again: no NaN, no keys but text, no endless depth or digits."""
    try:
        return _is_flat(value, DEEPEST) and bool(parse(json.dumps(value, allow_nan=False).encode()) == value)
    except (TypeError, ValueError, RecursionError):
        return False


def _is_flat(value: Any, levels: int) -> bool:
    children = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return levels > 0 and all(_is_flat(child, levels - 1) for child in children)


def _check_pointer(path: Any, where: str) -> None:
    if not isinstance(path, str) or (path and not path.startswith("/")) or re.search("~(?![01])", path):
        why = "'~0' stands for '~' there and '~1' for '/'"
        what = f"an edit's path is a JSON pointer such as /dtype, not {path!r}"
        raise ConfigurationError(what, where=where, why=why)


def _check_file(file: Any, where: str) -> None:
    path = PurePosixPath(str(file))
    if path.is_absolute() or ".." in path.parts or str(path) != file:
        what = f"an edit names the file {file!r}, which is not inside the checkpoint's folder"
        raise ConfigurationError(what, where=where, fix="write its path relative to that folder, without '..'")
    if path.suffix != ".json" or file in MADE:
        what = f"an edit names {file!r}: only JSON files are edited, and not those that a view makes by itself"
        raise ConfigurationError(what, where=where, why=f"these are {' and '.join(MADE)}")


def apply_edits(texts: Mapping[str, bytes], edits: Iterable[Edit]) -> dict[str, bytes]:
    """The new contents of the edited files; ConfigurationError for an edit that matches or changes nothing."""
    documents: dict[str, Any] = {}
    for edit in edits:
        if edit.file not in texts:
            raise _no_match(edit, "the checkpoint has no such file")
        if edit.file not in documents:
            documents[edit.file] = _parsed(edit.file, texts[edit.file])
        _apply(documents[edit.file], edit)
    return {file: _text(document) for file, document in documents.items()}


def _text(document: Any) -> bytes:
    """The document as UTF-8; what UTF-8 cannot hold (half a surrogate pair) stays the escape that it was."""
    try:
        return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError:
        return (json.dumps(document, indent=2) + "\n").encode()


def _parsed(file: str, text: bytes) -> Any:
    try:
        return parse(text)
    except StrictJsonError as error:
        raise ConfigurationError(f"{file} cannot be edited: {error}", where=file) from None


def _apply(document: Any, edit: Edit) -> None:
    keys = [key.replace("~1", "/").replace("~0", "~") for key in edit.path.split("/")[1:]]
    if not keys:
        raise _no_match(edit, "a whole document is not replaced")
    parent = document
    for key in keys[:-1]:
        found, parent = _get(parent, key)
        if not found:
            raise _no_match(edit, f"there is no {key!r}")
    found, old = _get(parent, keys[-1])
    if edit.was and (not found or not _same(old, edit.was[0])):
        raise _no_match(
            edit, f"the value is {json.dumps(old) if found else 'not there'}, not {json.dumps(edit.was[0])}"
        )
    if isinstance(parent, list):
        _change_list(parent, keys[-1], edit, found)
    elif isinstance(parent, dict):
        _change_object(parent, keys[-1], edit, found)
    else:
        raise _no_match(edit, f"what holds {keys[-1]!r} is neither an object nor a list")


def _get(parent: Any, key: str) -> tuple[bool, Any]:
    if isinstance(parent, dict):
        return key in parent, parent.get(key)
    if isinstance(parent, list) and re.fullmatch("[0-9]{1,9}", key) and int(key) < len(parent):
        return True, parent[int(key)]
    return False, None


def _change_object(parent: dict[str, Any], key: str, edit: Edit, found: bool) -> None:
    if edit.op == "add" and found:
        raise _no_match(edit, f"{key!r} is there already")
    if edit.op != "add" and not found:
        raise _no_match(edit, f"there is no {key!r}")
    if edit.op == "remove":
        del parent[key]
    elif found and _same(parent[key], edit.value):
        raise _no_match(edit, "the value is there already")
    else:
        parent[key] = edit.value


def _change_list(parent: list[Any], key: str, edit: Edit, found: bool) -> None:
    if edit.op == "add" and key == "-":
        parent.append(edit.value)
    elif not found:
        raise _no_match(edit, f"the list has no item {key!r}")
    elif edit.op == "add":
        parent.insert(int(key), edit.value)
    elif edit.op == "remove":
        del parent[int(key)]
    elif _same(parent[int(key)], edit.value):
        raise _no_match(edit, "the value is there already")
    else:
        parent[int(key)] = edit.value


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON: 1, 1.0 and true are three values."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _no_match(edit: Edit, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"the edit of {edit.file} matches nothing: {edit.op} {edit.path}: {reason}",
        why="an edit that changes nothing was written for another checkpoint",
        fix="correct the edit, or take it out",
    )


def edited_files(edits: Sequence[Edit]) -> tuple[str, ...]:
    """The files that edits change, each once."""
    return tuple(dict.fromkeys(edit.file for edit in edits))
