"""Where workers imported from against the planned environment; each way to be outside has its sentence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from toolkit.planning.expected import ExpectedWorkers, ImportFolders
from toolkit.planning.plan import Severity
from toolkit.planning.worker_report import ImportRoot, WorkerReport
from toolkit.serving.worker_imports import added_findings, import_findings

STANDARD, SITE, CHECKOUT = "/usr/lib/python3.11", "/env/lib/python3.11/site-packages", "/src/volta"
PLANNED = ImportFolders((STANDARD,), (SITE,), ("/added",), CHECKOUT)
RUN = Path("/runs/one")
ENVIRONMENT = {"HOME": "/home/me"}


def root(folder, *modules, count=0, generated=False):
    return ImportRoot(str(folder), modules or ("regex",), count or len(modules) or 1, generated)


def report(*roots):
    return WorkerReport(0, 1, 1, "cpu", {}, {}, imports=(root(STANDARD, "os"), *roots))


def faults(*roots, environment=ENVIRONMENT, planned=PLANNED):
    found = list(import_findings(report(*roots), planned, environment, RUN))
    assert {(each.rule, each.severity, each.where) for each in found} <= {
        ("workers-imports", Severity.refuse, "rank 0")
    }
    return [f"{each.message}; {each.fix}" for each in found]


PLANNED_ROOTS = [
    root(f"{STANDARD}/lib-dynload", "_ssl"),
    root(SITE, "vllm", "torch", count=200),
    root(f"{SITE}/setuptools/_vendor", "jaraco"),
    root("/added", "vllm"),
    root(CHECKOUT, "toolkit"),
    root(CHECKOUT, "kernels", "toolkit"),
    root("/home/me/.cache/huggingface/modules", "transformers_modules", generated=True),
    root("/home/me/.triton", "__triton_launcher", "cuda_utils", generated=True),
]


@pytest.mark.parametrize("planned", PLANNED_ROOTS, ids=lambda each: each.folder)
def test_what_the_plan_names_or_a_worker_calls_generated_passes(planned):
    assert faults(planned) == []


FOREIGN = [
    ("/home/me/.local/lib/python3.11/site-packages", "it is the user's own packages"),
    ("/other/venv/lib/python3.11/site-packages", "it belongs to another environment"),
    (f"{STANDARD}/site-packages", "it belongs to another environment"),
    (f"{STANDARD}/dist-packages/sub", "it belongs to another environment"),
    (str(RUN), "it is the run's own folder"),
    ("/on/the/path", "PYTHONPATH names it"),
    ("/elsewhere", "the plan does not name it"),
    (f"{SITE}2", "the plan does not name it"),
    ("/home/me/.cache/huggingface/modules", "the plan does not name it"),
    ("/home/me/.triton", "the plan does not name it"),
]


@pytest.mark.parametrize(("folder", "why"), FOREIGN)
def test_everything_else_is_a_fault_with_module_path_why_and_fix(folder, why):
    environment = {**ENVIRONMENT, "PYTHONPATH": "/on/the/path"}
    (said,) = faults(root(folder, "regex", "torch", count=5), environment=environment)
    assert said.startswith(
        f"imported regex, torch and 3 more from {folder}, outside the planned environment: {why}; "
    ), said
    assert said.rpartition("; ")[2], "a fix"


def test_a_source_checkout_is_called_one(tmp_path):
    (tmp_path / "pyproject.toml").touch()
    (said,) = faults(root(tmp_path, "vllm"))
    assert "it is a source checkout; install the release instead" in said


@pytest.mark.parametrize("module", ["vllm", "tests", "toolkit.planning.plan"])
def test_the_toolkits_checkout_may_be_imported_for_the_toolkit_alone(module):
    (said,) = faults(root(CHECKOUT, "toolkit", module))
    assert said.startswith(f"imported toolkit, {module} from {CHECKOUT}")


def test_every_folder_is_named():
    assert len(faults(root("/a"), root("/b"), root(SITE))) == 2


def test_a_link_to_the_planned_folder_is_the_planned_folder(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib64").symlink_to("lib")
    planned = ImportFolders((STANDARD,), (str(tmp_path / "lib"),), (), None)
    assert faults(root(tmp_path / "lib64", "torch"), planned=planned) == []


def test_a_worker_that_does_not_say_is_not_believed():
    silent = WorkerReport(0, 1, 1, "cpu", {}, {})
    (said,) = import_findings(silent, PLANNED, ENVIRONMENT, RUN)
    assert "does not say where it imported from" in said.message


def test_a_link_to_the_toolkits_checkout_is_the_toolkits_checkout(tmp_path):
    (tmp_path / "checkout").mkdir()
    (tmp_path / "link").symlink_to("checkout")
    planned = replace(PLANNED, added=(str(tmp_path),), toolkit=str(tmp_path / "checkout"))
    expected = ExpectedWorkers("cpu", "Platform", planned)
    assert added_findings([report(root(tmp_path / "link", "toolkit"))], expected) == ()
    (found,) = added_findings([report(root(tmp_path / "link", "vllm"))], expected)
    assert "imported vllm from" in found.message


def test_what_comes_from_added_folders_is_a_warning_with_the_modules_names():
    expected = ExpectedWorkers("cpu", "Platform", PLANNED)
    (found,) = added_findings([report(root("/added", "vllm")), report(root("/added", "regex"))], expected)
    assert (found.rule, found.where) == ("workers-added-imports", "engine.environment.PYTHONPATH")
    assert "the workers imported regex, vllm from /added, which comes before the environment's own" in found.message
    assert added_findings([report(root(SITE), root(CHECKOUT, "toolkit"))], expected) == ()
    assert added_findings([report(root("/added"))], ExpectedWorkers("cpu", "Platform", None)) == ()
