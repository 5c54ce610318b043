"""The libraries themselves find their folders of generated code where the plugin does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .conftest import Run, last_json

SETTINGS = [
    {"XDG_CACHE_HOME": "/cache", "TRITON_CACHE_DIR": "relative/triton"},
    {"VLLM_CACHE_ROOT": "~/kept", "HF_HOME": "~/$LANGUAGE/hf", "LANGUAGE": "en", "TRITON_HOME": "/kernels"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=["defaults", "variables"])
def test_each_library_writes_below_a_folder_that_is_named(settings: dict[str, str], run: Run, tmp_path: Path) -> None:
    ours, theirs = last_json(run("generated", HOME=str(tmp_path), **settings))
    assert {package: len(folders) for package, folders in theirs.items()} == {"": 4, "transformers_modules": 1}
    for package, folders in theirs.items():
        for folder in folders:
            path = Path(os.path.abspath(folder))  # noqa: PTH100 - the script runs in this process's folder
            assert any(path.is_relative_to(each) for each, counts in ours.items() if counts == package), folder
