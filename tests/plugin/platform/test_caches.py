"""Which folder keeps compiled code: one for each set of versions, so that no start meets code of another release."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.plugin.platform.caches import cache_folder, cache_variables

ROOT = Path("/cache")
VERSIONS = {"vllm": "0.32.0", "torch": "2.10.0", "triton": "3.6.0", "volta-toolkit": "0.1.0"}


def test_the_same_versions_share_a_folder_in_whatever_order_they_are_named() -> None:
    assert cache_folder(ROOT, VERSIONS) == cache_folder(ROOT, dict(reversed(VERSIONS.items())))
    assert cache_folder(ROOT, VERSIONS).parent == ROOT / "engine"


@pytest.mark.parametrize("name", VERSIONS)
def test_another_release_of_any_of_them_has_a_folder_of_its_own(name: str) -> None:
    assert cache_folder(ROOT, {**VERSIONS, name: f"{VERSIONS[name]}.post1"}) != cache_folder(ROOT, VERSIONS)


def test_versions_that_are_exchanged_are_not_the_same() -> None:
    first, second = {"a": "1", "b": "2"}, {"a": "2", "b": "1"}
    assert cache_folder(ROOT, first) != cache_folder(ROOT, second)


def test_each_cache_lies_in_the_folder_and_none_in_anothers() -> None:
    variables = cache_variables(ROOT / "engine/0123")
    folders = [Path(value) for value in variables.values() if value.startswith("/")]
    assert len(set(folders)) == len(folders) == 3
    assert {folder.parent for folder in folders} == {ROOT / "engine/0123"}
