"""No file of a stranger's configuration folder runs code, in whichever way Hydra comes to read it.

Each way is tried twice: on a bare Hydra application, where the stranger's code does run (so the attack is a real one),
and on the toolkit, where it does not.
"""

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import cli
import pytest

STRANGER = """
import pathlib, os
pathlib.Path(os.environ["SENTINEL"]).touch()
from hydra.experimental.callback import Callback
class Callback(Callback): pass
def handler(*args, **kwargs):
    import logging
    return logging.NullHandler()
"""
BARE = """
import hydra, sys
@hydra.main(version_base="1.3", config_path=sys.argv.pop(1), config_name="plan")
def main(config): pass
main()
"""
CALLBACK = "callbacks:\n  mine:\n    _target_: stranger.Callback\n"
HANDLER = "version: 1\nhandlers:\n  h:\n    (): stranger.handler\nroot:\n  handlers: [h]\n"
GLOBAL = "# @package _global_\n"


def indented(text: str, below: str) -> str:
    return f"{below}:\n" + "".join(f"  {line}\n" for line in text.splitlines())


@dataclass
class Attack:
    """Files of the stranger's folder, and what the user is told to type."""

    files: dict[str, str]
    arguments: list[str] = field(default_factory=lambda: ["--config-dir", "DIR", "+recipe=x"])
    links: dict[str, str] = field(default_factory=dict)


ATTACKS = {
    "a hydra key": Attack({"recipe/x.yaml": GLOBAL + indented(CALLBACK, "hydra")}),
    "a key spelled with an escape": Attack({"recipe/x.yaml": GLOBAL + indented(CALLBACK, '"\\x68ydra"')}),
    "a key from a merged anchor": Attack(
        {
            "recipe/x.yaml": GLOBAL
            + indented(indented(CALLBACK, "hydra"), "limits: &a").replace("&a:", "&a")
            + "<<: *a\n"
        }
    ),
    "a package header": Attack({"recipe/x.yaml": "# @package hydra\n" + CALLBACK}),
    "a header with a hidden _global_": Attack({"recipe/x.yaml": "# @package x_global_Zhydra\n" + CALLBACK}),
    "logging factories, without _target_": Attack({"recipe/x.yaml": "# @package hydra.job_logging\n" + HANDLER}),
    "another file's package": Attack(
        {
            "recipe/x.yaml": f"{GLOBAL}defaults:\n  - /theme@_global_.hydra.job_logging: dark\n",
            "theme/dark.yaml": HANDLER,
        }
    ),
    "a file among Hydra's groups": Attack(
        {
            "recipe/x.yaml": f"{GLOBAL}defaults:\n  - override /hydra/job_logging: dark\n",
            "hydra/job_logging/dark.yaml": HANDLER,
        }
    ),
    "a file above the folder": Attack(
        {
            "recipe/x.yaml": f"{GLOBAL}defaults:\n  - /../outside\n",
            "../outside.yaml": GLOBAL + indented(CALLBACK, "hydra"),
        }
    ),
    "a file behind a linked folder": Attack(
        {
            "recipe/x.yaml": f"{GLOBAL}defaults:\n  - /linked/y\n",
            "../elsewhere/y.yaml": GLOBAL + indented(CALLBACK, "hydra"),
        },
        links={"linked": "../elsewhere"},
    ),
    "a recipe behind a link": Attack(
        {"recipe/z.yaml": "{}", "../x.yaml": GLOBAL + indented(CALLBACK, "hydra")},
        links={"recipe/x.yaml": "../../x.yaml"},
    ),
    "a recipe above the shipped folder": Attack(
        {"recipe/x.yaml": GLOBAL + indented(CALLBACK, "hydra")}, ["+recipe=RELATIVE/recipe/x"]
    ),
    "a short flag": Attack({"recipe/x.yaml": GLOBAL + indented(CALLBACK, "hydra")}, ["-cd", "DIR", "+recipe=x"]),
    "an abbreviated flag": Attack(
        {"recipe/x.yaml": GLOBAL + indented(CALLBACK, "hydra")}, ["--config-d=DIR", "+recipe=x"]
    ),
    "a search path": Attack(
        {"recipe/x.yaml": GLOBAL + indented(CALLBACK, "hydra")}, ["hydra.searchpath=[file://DIR]", "+recipe=x"]
    ),
    "a search path of a package": Attack({"mine/__init__.py": STRANGER}, ["hydra.searchpath=[pkg://mine]"]),
    "a primary configuration": Attack(
        {"mine.yaml": "defaults: [plan, _self_]\n" + indented(CALLBACK, "hydra")},
        ["--config-dir", "DIR", "--config-name", "mine"],
    ),
    "a search path in a primary configuration": Attack(
        {
            "mine.yaml": "defaults: [plan, _self_]\nhydra:\n  searchpath: [pkg://mine]\n",
            "mine/__init__.py": STRANGER,
        },
        ["--config-dir", "DIR", "--config-name", "mine"],
    ),
    "a main folder": Attack({"plan.yaml": indented(CALLBACK, "hydra")}, ["--config-path", "DIR"]),
    "a package typed by the user": Attack(
        {"theme/dark.yaml": HANDLER}, ["--config-dir", "DIR", "+theme@hydra.job_logging=dark"]
    ),
    "the second job of a sweep": Attack(
        {"recipe/x.yaml": "# @package hydra.job_logging\n" + HANDLER, "recipe/good.yaml": "{}"},
        ["--config-dir", "DIR", "-m", "+recipe=good,x"],
    ),
    "help": Attack(
        {"recipe/x.yaml": "# @package hydra.hydra_logging\n" + HANDLER}, ["--config-dir", "DIR", "+recipe=x", "--help"]
    ),
}


@pytest.fixture
def sentinel(tmp_path: Path) -> Path:
    (tmp_path / "stranger.py").write_text(STRANGER)
    return tmp_path / "code-ran"


@pytest.fixture
def arguments(tmp_path: Path, attack: Attack) -> list[str]:
    folder = cli.write(tmp_path / "theirs", attack.files)
    for name, target in attack.links.items():
        (folder / name).symlink_to(target)
    relative = f"{'../' * 20}{folder.relative_to('/')}"
    return [text.replace("DIR", str(folder)).replace("RELATIVE", relative) for text in attack.arguments]


def environment(sentinel: Path) -> dict[str, str]:
    path = f"{cli.REPOSITORY}:{sentinel.parent}:{sentinel.parent / 'theirs'}"
    return {"SENTINEL": str(sentinel), "PYTHONPATH": path}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_the_toolkit_runs_nothing(arguments, sentinel, attack):
    result = cli.call("plan", *arguments, **environment(sentinel))
    assert not sentinel.exists(), result.stdout + result.stderr
    assert result.returncode == 2
    assert cli.first_line(result.stderr).startswith("error: ")
    assert result.stdout == "" or "-m" in arguments


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_the_attack_is_a_real_one(arguments, sentinel, attack, tmp_path):
    conf = cli.write(tmp_path / "conf", {"plan.yaml": "{}", "recipe/shipped.yaml": "{}"})
    result = subprocess.run(
        [sys.executable, "-c", BARE, str(conf), *arguments],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", **environment(sentinel)},
    )
    assert sentinel.exists(), result.stdout + result.stderr


@pytest.mark.parametrize("name", ["hydra_plugins/mine.py", "hydra/__init__.py", "omegaconf.py", "yaml.py", "rich.py"])
def test_a_strangers_folder_is_safe_to_stand_in(tmp_path, sentinel, name):
    folder = cli.write(tmp_path / "theirs", {name: STRANGER, "recipe/x.yaml": "{}"})
    environment = {"SENTINEL": str(sentinel), "PYTHONPATH": str(cli.REPOSITORY)}
    result = cli.call("plan", "--config-dir", ".", "+recipe=x", cwd=folder, **environment)
    assert not sentinel.exists()
    assert result.returncode == 0, result.stderr


def test_a_pickled_job_is_not_opened(tmp_path):
    result = cli.call("plan", "--experimental-rerun", str(tmp_path / "config.pickle"))
    assert result.returncode == 2
    assert cli.first_line(result.stderr) == "error: --experimental-rerun is refused"


def test_a_huge_file_is_refused_before_it_is_parsed(tmp_path):
    cli.write(tmp_path, {"recipe/huge.yaml": "# x\n" * 300_000})
    result = cli.call("plan", "--config-dir", str(tmp_path), "+recipe=huge")
    assert result.returncode == 2
    assert cli.first_line(result.stderr) == "error: huge.yaml cannot be read as YAML"
    assert "why: it holds 1,200,000 bytes, and a configuration holds at most 1,000,000\n" in result.stderr
