"""The tag: there once, whole again after a write that was cut short, and never half-written."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.storage.cache_tag import tag_cache

SIGNATURE = "Signature: 8a477f597d28d172789f06886806bc55"  # of the specification


def tagged(root: Path) -> Path:
    tag_cache(root, root / "lock")
    return root / "CACHEDIR.TAG"


def test_the_signature_is_the_first_line(tmp_path: Path) -> None:
    assert tagged(tmp_path).read_text().splitlines()[0] == SIGNATURE
    assert {path.name for path in tmp_path.iterdir()} == {"CACHEDIR.TAG", "lock"}


def test_a_whole_tag_is_left_alone(tmp_path: Path) -> None:
    before = tagged(tmp_path).stat()
    (tmp_path / "lock").unlink()
    assert tagged(tmp_path).stat().st_ino == before.st_ino
    assert not (tmp_path / "lock").exists()


@pytest.mark.parametrize("left", [b"", b"Signature: 8a47"])
def test_what_a_kill_left_is_replaced(tmp_path: Path, left: bytes) -> None:
    (tmp_path / "CACHEDIR.TAG").write_bytes(left)
    (tmp_path / ".CACHEDIR.TAG.new").write_bytes(left)
    assert tagged(tmp_path).read_text().splitlines()[0] == SIGNATURE
    assert not (tmp_path / ".CACHEDIR.TAG.new").exists()
