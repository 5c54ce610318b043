"""A path that begins with a home that is not there is a mistake in an option, and no fault of ours."""

from pathlib import Path

import cli
import pytest

from toolkit.config.paths import user_path
from toolkit.errors import ConfigurationError

NOBODY = "~nobody-has-this-name/x"
WRITTEN = (
    ("plan", "machine.facts_file"),
    ("plan", "checkpoint.source.path", "checkpoint.source.kind=local"),
    ("doctor", "machine.facts_file"),
    ("serve", "receipt"),
    ("status", "runs"),
    ("verify", "views.root"),
    ("calibrate", "prompts", "+recipe=tiny_random_cpu"),
    ("calibrate", "folder", "+recipe=tiny_random_cpu"),
)


@pytest.mark.parametrize("written", WRITTEN, ids=lambda written: " ".join(written[:2]))
def test_every_option_that_is_a_path_says_so(written):
    verb, option, *others = written
    result = cli.call(verb, f'{option}="{NOBODY}"', *others)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        f"error: {option}='{NOBODY}' begins with a user that this machine does not know\n"
        f"  where: {option}\n  fix: write the path in full\n"
    )


def test_a_folder_of_configuration_as_well():
    result = cli.call("plan", "--config-dir", NOBODY)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: --config-dir='~nobody")


def test_what_is_no_path_and_what_is_one(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert user_path("~/x", "x") == Path("/home/me/x")
    assert user_path("a/~/x", "x") == Path("a/~/x")
    with pytest.raises(ConfigurationError, match="null character"):
        user_path("a\0b", "x")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)  # as in a container whose user has no name
    with pytest.raises(ConfigurationError, match="begins with a home that is not known"):
        user_path("~/x", "x")


def test_no_home_is_looked_up_elsewhere():
    """But where a worker reads other libraries' variables, as these libraries do."""
    sources = (cli.REPOSITORY / "toolkit").rglob("*.py")
    found = {path.name for path in sources if "expanduser(" in path.read_text("utf-8")}
    assert found == {"paths.py", "generated.py"}
