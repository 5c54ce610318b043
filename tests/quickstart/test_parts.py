"""The pure parts of ./quickstart."""

from __future__ import annotations

import tomllib
from io import StringIO
from pathlib import Path

import pytest
from scikit_build_core.build._editable import package_search_dirs

from toolkit.setup import lock, space
from toolkit.setup.__main__ import command, needs
from toolkit.setup.causes import NO_BUILD, cause, package
from toolkit.setup.progress import Progress
from toolkit.setup.stamp import python_version

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("needed", "present", "free", "missing"),
    [(4, 0, 4, 0), (4, 0, 3, 1), (4, 3, 1, 0), (4, 5, 0, 0), (4, 1, 1, 2)],
)
def test_shortfall(needed: int, present: int, free: int, missing: int) -> None:
    assert space.shortfall(needed, present, free) == missing


def test_size_counts_blocks_on_the_disk(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100_000)
    (tmp_path / "dangling").symlink_to("nowhere")
    assert 100_000 <= space.size(tmp_path) < 200_000
    assert space.size(tmp_path / "absent") == 0


@pytest.mark.parametrize(
    ("said", "why", "name"),
    [
        (
            "Collecting torch==1\nERROR: Could not install packages: [Errno 28] No space left on device",
            "the disk is full",
            "torch==1",
        ),
        (
            (
                "WARNING: Retrying after connection broken by 'NewConnectionError(Name or service not known)'\n"
                "ERROR: Could not find a version that satisfies the requirement a==1 (from versions: none)\n"
                "ERROR: No matching distribution found for a==1\n"
            ),
            "the package index did not answer",
            "a==1",
        ),
        (
            "ERROR: No matching distribution found for b==2",
            "the package index has no build of it for this machine and this Python",
            "b==2",
        ),
        (
            (
                "Collecting c==3\nSSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED]'))\n"
                "ERROR: No matching distribution found for c==3"
            ),
            "the package index's certificate was not accepted, as behind a proxy that opens TLS",
            "c==3",
        ),
    ],
)
def test_a_known_cause_is_told_from_what_pip_said(said: str, why: str, name: str) -> None:
    known = cause(said)
    assert known is not None
    assert (known.why, package(said)) == (why, name)


def test_a_version_that_the_configuration_forbids() -> None:
    known = cause(
        "ERROR: Cannot install a==2 because these package versions have conflicting dependencies.\n"
        "    The user requested a==2\n    The user requested (constraint) a<=1\nERROR: ResolutionImpossible: see"
    )
    assert known is not None
    assert known.why == "pip's configuration forbids the version"


def test_a_version_that_no_index_has_is_not_taken_for_forbidden() -> None:
    said = (
        "ERROR: Cannot install a==2 because these package versions have conflicting dependencies.\n"
        "    The user requested a==2\n    The user requested (constraint) a<=3\n"
        "Additionally, some packages in these conflicts have no matching distributions available for your "
        "environment:\n"
        "    a\nERROR: ResolutionImpossible: see"
    )
    known = cause(said)
    assert known is not None
    assert (known.why, package(said)) == (NO_BUILD[0], "a==2")


def test_progress_names_what_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stderr", terminal)
    progress = Progress(total=1)
    with progress.phase("the engine"):
        for line in (
            "Collecting torch==2.10.0 (from -r v100.txt (line 9))\n",
            "  Downloading torch-2.10.0-cp311-cp311-manylinux_2_28_x86_64.whl (915.6 MB)\n",
            "Collecting numpy==2\n",
            "Installing collected packages: numpy, torch\n",
        ):
            progress.heard(line)
    drawn = terminal.getvalue().split("\r\x1b[K")
    title = "quickstart: [1/1] the engine"
    assert drawn[2:6] == [
        f"{title}: 1 package found",
        f"{title}: 1 package found, downloading torch-2.10.0 (915.6 MB)",
        f"{title}: 2 packages found",
        f"{title}: unpacking 2 packages",
    ]


def test_an_unknown_failure_has_no_cause() -> None:
    assert cause("error: subprocess-exited-with-error") is None
    assert package("nothing") == ""


DEFAULT = ["-P", "-m", "toolkit.serve", "+recipe=smollm2_cpu"]


@pytest.mark.parametrize("arguments", [[], ["until=answered"], ["server.recipe_like=1"], ["-m", "kv=a,b"]])
def test_serve_without_a_recipe_gets_the_default_one(arguments: list[str]) -> None:
    assert command("serve", arguments) == [*DEFAULT, *arguments]


@pytest.mark.parametrize(
    "argument", ["+recipe=x", "recipe=x", "++recipe=x", "+recipe@_global_=x", "receipt=f", "--config-name=x", "-cp=x"]
)
def test_serve_with_a_recipe_keeps_it(argument: str) -> None:
    assert command("serve", ["dry_run=true", argument]) == ["-P", "-m", "toolkit.serve", "dry_run=true", argument]


def test_other_verbs_get_no_recipe() -> None:
    assert command("plan", ["a=1"]) == ["-P", "-m", "toolkit.plan", "a=1"]
    assert command("test", ["-k", "x"]) == ["-m", "pytest", "-k", "x"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], False),
        (["-q"], False),
        (["-k", "memory", "-m", "not engine"], False),
        (["tests"], True),
        (["-q", "tests/conftest.py::test_x"], True),
        (["tests/test_mistyped.py"], True),
    ],
)
def test_only_named_tests_leave_the_v100_environment_as_it_is(arguments: list[str], named: bool) -> None:
    assert needs("test", arguments) == [("cpu", "test"), *([] if named else [("v100", "v100")])]


@pytest.mark.parametrize(
    ("text", "version"), [("version = 3.11.7\n", "3.11"), ("home = x\nversion_info = 3.13.0\n", "3.13"), ("x", None)]
)
def test_python_version_of_an_environment(tmp_path: Path, text: str, version: str | None) -> None:
    (tmp_path / "pyvenv.cfg").write_text(text)
    assert python_version(tmp_path) == version


def test_an_editable_install_takes_no_folder_beside_the_checkout_into_the_import_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(REPOSITORY)
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    taken = {Path(path) for path in package_search_dirs(project["tool"]["scikit-build"]["wheel"]["packages"])}
    assert REPOSITORY in taken
    assert all(path.is_relative_to(REPOSITORY) for path in taken)
    assert [module for path in taken - {REPOSITORY} for module in path.rglob("*.py")] == []


def test_locks_of_several_pythons_are_merged_with_markers() -> None:
    resolved = {
        "3.11": {"same": "1", "split": "1", "early": "1"},
        "3.12": {"same": "1", "split": "2", "late": "3"},
        "3.13": {"same": "1", "split": "3", "late": "3"},
    }
    assert lock.merged(resolved) == [
        'early==1; python_version < "3.12"',
        'late==3; python_version >= "3.12"',
        "same==1",
        'split==1; python_version < "3.12"',
        'split==2; python_version >= "3.12" and python_version < "3.13"',
        'split==3; python_version >= "3.13"',
    ]


@pytest.mark.parametrize(
    ("line", "name"), [("Foo_Bar.baz[x]>=1; y", "foo-bar-baz"), ("torch==2.13.0+cpu", "torch"), ("; x", "")]
)
def test_project_names_are_normalized(line: str, name: str) -> None:
    assert lock.normalized(line) == name


def test_requirement_files_are_read_without_comments(tmp_path: Path) -> None:
    (tmp_path / "a.in").write_text("# head\na==1  # why\n\nb\n")
    assert lock.lines_of(tmp_path / "a.in") == ["a==1", "b"]
