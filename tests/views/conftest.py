"""A checkpoint, a scale pack that fits it, and an empty store."""

from __future__ import annotations

from pathlib import Path

import pytest
from view_samples import make_base, pack_for, scales_for, spec_for, write_pack

from toolkit.views.spec import ViewSpec
from toolkit.views.store import ViewStore


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return make_base(tmp_path / "the base")


@pytest.fixture
def pack(tmp_path: Path, base: Path) -> Path:
    return write_pack(tmp_path / "pack", pack_for(base, scales_for()))


@pytest.fixture
def spec(base: Path, pack: Path) -> ViewSpec:
    return spec_for(base, pack)


@pytest.fixture
def store(tmp_path: Path) -> ViewStore:
    return ViewStore.at(str(tmp_path / "store"))
