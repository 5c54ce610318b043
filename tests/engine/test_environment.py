"""The engine sees what the plan names, and nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from toolkit.engine.environment import API_KEY, compose, read_api_key
from toolkit.errors import ConfigurationError

SHELL = {
    "PATH": "/bin",
    "HOME": "/root",
    "PYTHONPATH": "/src",
    "LD_LIBRARY_PATH": "/opt",
    "LD_PRELOAD": "x.so",
    "VLLM_USE_V1": "0",
    "https_proxy": "http://proxy",
    "EDITOR": "vi",
}


def test_only_planned_and_named_variables_pass(tmp_path):
    found = compose({"A": "1"}, ("PATH", "NOT_SET"), SHELL, tmp_path, None)
    assert found.values == {"PATH": "/bin", "A": "1", "VOLTA_RUN": str(tmp_path), "SPT_NOENV": "1"}


def test_the_plan_wins_over_the_shell(tmp_path):
    assert compose({"PATH": "/planned"}, ("PATH",), SHELL, tmp_path, None).values["PATH"] == "/planned"


def test_dropped_variables_that_matter_are_named_and_others_are_not(tmp_path):
    found = compose({"LD_PRELOAD": "planned.so"}, ("PYTHONPATH",), SHELL, tmp_path, None)
    assert found.dropped == ("LD_LIBRARY_PATH", "VLLM_USE_V1", "https_proxy")
    assert found.notice == (
        "not passed to the engine: LD_LIBRARY_PATH, VLLM_USE_V1, https_proxy "
        "(pass one with +engine.environment.NAME=VALUE or engine.inherit)"
    )


def test_nothing_dropped_is_no_notice(tmp_path):
    assert compose({}, (), {"EDITOR": "vi"}, tmp_path, None).notice is None


def test_the_key_travels_in_the_environment(tmp_path):
    assert compose({}, (), {}, tmp_path, "k" * 20).values[API_KEY] == "k" * 20


def test_a_private_key_file_is_read(tmp_path):
    file = tmp_path / "key"
    file.write_text("secret-key\nanother line\n")
    file.chmod(0o600)
    assert read_api_key(str(file)) == "secret-key"


@pytest.mark.parametrize(
    ("content", "mode", "message"),
    [
        (None, 0o600, "server.api_key_file cannot be read"),
        ("", 0o600, "server.api_key_file holds no key"),
        ("\nsecond", 0o600, "server.api_key_file holds no key"),
        ("two words", 0o600, "server.api_key_file holds no key"),
        ("schlüssel", 0o600, "server.api_key_file holds no key"),
        ("secret-key", 0o644, "server.api_key_file may be read by other users"),
    ],
)
def test_bad_key_files(tmp_path, content, mode, message):
    file = tmp_path / "key"
    if content is not None:
        file.write_text(content)
        file.chmod(mode)
    with pytest.raises(ConfigurationError) as caught:
        read_api_key(str(file))
    assert caught.value.what == message
    assert "secret-key" not in str(caught.value)


def test_a_missing_key_file_is_made_by_what_is_told(tmp_path):
    file = tmp_path / "my key"
    with pytest.raises(ConfigurationError) as caught:
        read_api_key(str(file))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(["bash", "-c", caught.value.fix], check=True, env={"PATH": path})
    assert len(read_api_key(str(file))) == 43


def test_a_binary_key_file_is_refused(tmp_path):
    file = tmp_path / "key"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match=r"server\.api_key_file cannot be read"):
        read_api_key(str(file))
