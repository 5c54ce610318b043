"""CACHEDIR.TAG (https://bford.info/cachedir/): tells backup programs that a folder can be made again."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

from toolkit.storage.disk import replace_file
from toolkit.storage.lock import locked

_TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n# Made by volta-toolkit; everything here can be made again.\n"


def tag_cache(root: Path, lock: Path) -> None:
    """Put the tag into `root` if it is not there or was cut short; `lock` keeps other writers away meanwhile."""
    tag = root / "CACHEDIR.TAG"
    if not tag.is_file() or tag.read_bytes() != _TAG:
        with locked(lock, nullcontext()):
            replace_file(tag, _TAG)
