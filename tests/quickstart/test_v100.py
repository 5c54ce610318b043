"""The second environment of ./quickstart, from outside: how it is chosen, and what its check finds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .small_checkout import Checkout, lay


@pytest.fixture(scope="module")
def v100_shared(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Checkout:
    return Checkout(tmp_path_factory.mktemp("v100") / "a checkout", wheels)


@pytest.fixture
def v100(v100_shared: Checkout) -> Checkout:
    """A checkout with that environment installed, and nothing else, whatever the last test did."""
    lay(v100_shared)
    result = v100_shared.run("setup", "engine=v100")
    assert result.returncode == 0, result.stderr
    return v100_shared


def refused(checkout: Checkout, verb: str = "setup") -> list[str]:
    """What the check of a failed installation found."""
    checkout.forget()
    result = checkout.run(verb, "engine=v100")
    assert result.returncode == 5, result.stderr
    assert not (checkout.root / ".venv-v100/.installed-v100").exists()
    head, _, rest = result.stderr.partition("error: the installation is not right: ")
    assert head
    first, where, *others = rest.splitlines()
    assert where == f"  where: {checkout.root / '.venv-v100'}"
    return [first, *(line.removeprefix("  why: ").strip() for line in others[:-1])]


def test_setup_makes_it_beside_the_other(v100: Checkout) -> None:
    assert not (v100.root / ".venv").exists()
    assert v100.version("torch", ".venv-v100") == "1"
    assert (v100.root / ".venv-v100-setup/install.log").is_file()
    again = v100.run("setup", "engine=v100")
    assert again.stderr == f"quickstart: ready: {v100.root / '.venv-v100/bin/python'}\n"


@pytest.mark.parametrize("verb", ["serve", "plan"])
def test_a_verb_for_that_engine_runs_in_it_and_gets_its_arguments(v100: Checkout, verb: str) -> None:
    result = v100.run(verb, "+recipe=x", "engine=v100", "exit=3")
    assert (result.returncode, result.stderr) == (3, "")
    said = json.loads(result.stdout)
    assert said["arguments"] == ["+recipe=x", "engine=v100", "exit=3"]
    assert said["venv"] == str(v100.root / ".venv-v100")
    assert said["python"] == str(v100.root / ".venv-v100/bin/python")


def test_the_last_engine_named_is_the_one(v100: Checkout) -> None:
    assert json.loads(v100.run("plan", "engine=cpu", "engine=v100").stdout)["venv"] == str(v100.root / ".venv-v100")


def test_the_whole_suite_has_both_environments_and_runs_in_the_first(checkout: Checkout) -> None:
    result = checkout.run("test", "-q")  # an option names no tests
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["arguments"] == ["-q"]
    assert json.loads(result.stdout)["venv"] == str(checkout.root / ".venv")
    assert (checkout.root / ".venv/.installed-test").exists()
    assert (checkout.root / ".venv-v100/.installed-v100").exists()
    assert checkout.run("test").stderr == ""


def test_files_that_are_named_take_the_environment_as_it_is_and_the_output_says_so(installed: Checkout) -> None:
    result = installed.run("test", "-q", "toolkit")
    assert json.loads(result.stdout)["arguments"] == ["-q", "toolkit"]
    assert not (installed.root / ".venv-v100").exists()
    assert "no .venv-v100: tests of engine=v100 are skipped (./quickstart setup engine=v100 for them)" in result.stderr


def test_a_torch_without_code_for_sm_70_is_refused(v100: Checkout) -> None:
    v100.edit("requirements/v100.txt", "torch==1", "torch==2")
    assert refused(v100) == [
        "torch 2 has code for sm_75 sm_90, not for sm_70: remove the environment and install it again"
    ]


def test_an_assembler_that_does_not_know_sm_70_is_refused(v100: Checkout) -> None:
    v100.edit("requirements/v100.txt", "triton==1", "triton==2")
    (found,) = refused(v100)
    assert found.startswith("Triton's assembler does not know sm_70: ")


def test_what_is_absent_is_named(v100: Checkout) -> None:
    v100.edit("requirements/v100.txt", "triton==1\ntiny-nccl==1\n", "")
    packages = v100.packages_of(".venv-v100")
    ptxas, nccl = packages / "triton/backends/nvidia/bin/ptxas", packages / "nvidia/nccl/lib/libnccl.so.2"
    ptxas.unlink()
    nccl.unlink()
    for info in (*packages.glob("triton-*.dist-info"), *packages.glob("tiny_nccl-*.dist-info")):
        (info / "RECORD").write_text("")  # what its RECORD does not list is not missed by it
    again = "remove the environment and install it again"
    assert refused(v100, "serve") == [
        f"Triton's assembler does not run: {ptxas}: No such file or directory: {again}",
        f"NCCL is not there ({nccl}), and GPUs could not work together: {again}",
    ]
    for info in (*packages.glob("triton-*.dist-info"), *packages.glob("tiny_nccl-*.dist-info")):
        (info / "RECORD").unlink()  # the next test gets them again


def test_leftovers_of_cuda_13_are_refused(checkout: Checkout) -> None:
    wanted = "torch==1\ntriton==1\ntiny-nccl==1\nnvidia-cublas-cu12==12.8\nnvidia-cublas==13.1\nnvidia-nccl-cu13==2\n"
    (checkout.root / "requirements/v100.txt").write_text(wanted)
    found = refused(checkout)
    assert [line.partition(" is of CUDA 13")[0] for line in found] == [
        "nvidia-cublas 13.1",
        "nvidia-nccl-cu13 2",
        str(checkout.packages_of(".venv-v100") / "nvidia/cu13"),
    ]
    assert all("12.8" not in line for line in found)
