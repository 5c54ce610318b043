"""Where libraries put code that they write; against the libraries themselves: tests/plugin/v100/test_generated.py."""

from __future__ import annotations

from pathlib import Path

from toolkit.plugin.generated import REMOTE_CODE, generated_folders
from toolkit.plugin.platform.caches import cache_folder, cache_variables


def test_a_relative_folder_is_below_the_processs_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert str(tmp_path / "inductor") in generated_folders({"TORCHINDUCTOR_CACHE_DIR": "inductor"})


def test_an_empty_variable_names_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ("VLLM_CACHE_ROOT", "TRITON_CACHE_DIR", "TRITON_HOME", "TORCHINDUCTOR_CACHE_DIR", "HF_HOME")
    assert generated_folders(dict.fromkeys(names, "")) == generated_folders({})
    assert str(tmp_path) not in generated_folders({})


def test_the_plugins_own_folders_are_among_them():
    variables = cache_variables(cache_folder(Path("/cache/volta-toolkit"), {"torch": "2.10.0"}))
    found = generated_folders(variables)
    assert {folder for folder in variables.values() if folder.startswith("/")} <= found.keys()


def test_of_a_checkpoints_code_only_transformers_package_counts(tmp_path):
    assert generated_folders({"HF_MODULES_CACHE": str(tmp_path)})[str(tmp_path)] == REMOTE_CODE
