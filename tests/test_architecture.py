"""The layers: verbs above packages, packages above config, errors at the bottom, and the plugin apart from all."""

from __future__ import annotations

import ast
import re
import statistics
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BOTTOM = {"toolkit", "toolkit.counted", "toolkit.errors"}
"""What every module may import: the version, the errors, and the words for a count."""
SHARED_WITH_PLUGIN = {
    "toolkit.machine.visible_devices",
    "toolkit.planning.attention_routes",
    "toolkit.planning.kv_measurement",
    "toolkit.planning.platform_demand",
    "toolkit.planning.worker_report",
}
"""Plain data that the plugin and the packages around it both read."""
BELOW_PLUGIN = {"toolkit", "toolkit.errors", "toolkit.native.library"}
"""What the plugin stands on besides: our version, by which caches are kept, and what loads our operators."""
LINES, MEDIAN, FUNCTION, VERB = 600, 150, 40, 120
DISPLAYS = {"toolkit.display.terminal"}
"""Modules that draw on a stream that a verb hands them."""


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {name_of(path): path for path in sorted((ROOT / "toolkit").rglob("*.py"))}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in PATHS.items()}


def imports_of(name: str) -> Iterator[str]:
    """Our modules that a module imports, anywhere in it."""
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "toolkit")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: a relative import"
            if node.module and node.module.split(".")[0] == "toolkit":
                for alias in node.names:
                    inside = f"{node.module}.{alias.name}"
                    yield inside if inside in PATHS else node.module


def package_of(name: str) -> str:
    """The folder below toolkit/ that a module lies in; empty for a module at the top."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and (ROOT / "toolkit" / parts[1]).is_dir() else ""


GRAPH = {name: set(imports_of(name)) for name in PATHS}
VERBS = {name for name in PATHS if not package_of(name)} - BOTTOM
IN_PACKAGES = set(PATHS) - VERBS - BOTTOM


def wrong(importers: set[str], imported: set[str]) -> list[str]:
    return [f"{name} imports {other}" for name in sorted(importers) for other in sorted(GRAPH[name] & imported)]


def members(package: str) -> set[str]:
    return {name for name in PATHS if package_of(name) == package}


def test_the_graph_is_read() -> None:
    assert {"toolkit.planning.fit", "toolkit.verb"} <= GRAPH["toolkit.plan"]
    assert "toolkit.config.search_path" in GRAPH["toolkit.verb"]  # inside a function


def test_packages_import_no_verb() -> None:
    assert wrong(IN_PACKAGES, VERBS) == []


def test_verbs_import_no_other_verb() -> None:
    """What two of them do lies below both."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    verbs = {entry.partition(":")[0] for entry in scripts.values()}
    assert verbs <= VERBS
    assert wrong(verbs, verbs) == []


def test_the_bottom_imports_nothing_of_ours() -> None:
    assert wrong(BOTTOM, set(PATHS)) == []


def test_config_imports_the_bottom_alone() -> None:
    assert wrong(members("config"), set(PATHS) - members("config") - BOTTOM) == []


def test_the_plugin_stands_alone() -> None:
    assert wrong(set(PATHS) - members("plugin"), members("plugin")) == []
    assert wrong(members("plugin"), set(PATHS) - members("plugin") - SHARED_WITH_PLUGIN - BELOW_PLUGIN) == []


@pytest.mark.parametrize("name", sorted(SHARED_WITH_PLUGIN))
def test_what_the_plugin_shares_is_plain_data(name: str) -> None:
    """It imports nothing of ours, and the packages around it import nothing either."""
    around = {name.rsplit(".", depth)[0] for depth in range(1, name.count(".") + 1)}
    assert wrong({name} | around, set(PATHS)) == []


def test_the_readme_names_every_package() -> None:
    named = set(re.findall(r"\btoolkit/(\w+)/", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert named == {package_of(name) for name in PATHS} - {""}


def test_packages_form_no_cycle() -> None:
    below = {package_of(name): set() for name in IN_PACKAGES}
    for name in IN_PACKAGES:
        imported = GRAPH[name] & IN_PACKAGES
        below[package_of(name)] |= {package_of(other) for other in imported} - {package_of(name)}
    while free := [package for package, others in below.items() if not others & below.keys()]:
        for package in free:
            del below[package]
    assert below == {}


def prints_of(name: str) -> Iterator[ast.Call]:
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield node


@pytest.mark.parametrize("name", sorted(DISPLAYS))
def test_a_display_prints_to_the_stream_that_it_was_given(name: str) -> None:
    assert list(prints_of(name)) != []  # who else prints is tests/test_streams.py's to find
    for call in prints_of(name):
        assert "self._stream" in [ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg == "file"]


def test_modules_are_small() -> None:
    lines = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in PATHS.items()}
    assert {name: count for name, count in lines.items() if count > LINES} == {}
    assert statistics.median(lines.values()) < MEDIAN


def test_verbs_parse_and_print() -> None:
    """Nothing that grows beyond that stays at the top: the packages below are tested without a process."""
    lines = {
        name: len(PATHS[name].read_text(encoding="utf-8").splitlines())
        for name in VERBS
        if "toolkit.verb" in GRAPH[name]
    }
    assert len(lines) >= 10
    assert {name: count for name, count in lines.items() if count >= VERB} == {}


def test_functions_fit_a_screen() -> None:
    long = {
        f"{name}.{node.name}": node.end_lineno - node.lineno + 1
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno - node.lineno >= FUNCTION
    }
    assert long == {}
