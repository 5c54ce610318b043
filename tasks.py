"""A task for each verb, and for keeping the project: `invoke --list`.

What follows `--` goes to the verb as it is: `invoke serve -- +recipe=smollm2_cpu until=answered` is
`python -m toolkit.serve +recipe=smollm2_cpu until=answered`. The verbs are pyproject.toml's console scripts.
"""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from invoke import Collection, Context, Exit, Task, task

ROOT = Path(__file__).resolve().parent
# What was typed after `--`, each argument whole, as invoke's own remainder joins them with spaces.
REST = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else []


def call(module: str, function: str = "main") -> None:
    """Do what `python -m MODULE` does, in this process, so that signals reach it."""
    sys.argv = [module, *REST]
    try:
        code = getattr(importlib.import_module(module), function)()
    except SystemExit as end:
        code = end.code
    if code:
        raise Exit(code=code)


def verb(name: str, entry: str) -> Task:
    """The task of a console script; its help is the first line of the module's docstring, read without an import."""
    module, function = entry.split(":")
    source = ROOT.joinpath(*module.split(".")).with_suffix(".py")

    def body(_context: Context) -> None:
        call(module, function)

    text = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    summary = re.sub(r"^`.*?`: ", "", text.partition("\n")[0])
    body.__doc__ = f"{summary[:1].upper()}{summary[1:]}\n\nOptions follow `--`: invoke {name} -- --help"
    return Task(body, name=name)


def run(*command: str) -> None:
    """Run a program in the checkout and end as it ends."""
    code = subprocess.call([*command, *REST], cwd=ROOT)
    if code:
        raise Exit(code=code if code > 0 else 128 - code)


@task
def test(_context: Context) -> None:
    """The whole suite, linters included: ./quickstart test."""
    run(str(ROOT / "quickstart"), "test")


@task
def lint(_context: Context) -> None:
    """Ruff and mypy alone."""
    run(sys.executable, "-m", "pytest", "-q", "tests/test_static.py")


@task
def docs(_context: Context) -> None:
    """Write the pages that are generated from the schema, the rules and the operators' states."""
    call("toolkit.config.docs")
    call("toolkit.planning.rules.page")
    call("toolkit.plugin.operators.table")


@task
def lock(_context: Context) -> None:
    """Write requirements/*.txt anew: invoke lock -- python3.11 python3.12 python3.13."""
    call("toolkit.setup.lock")


scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
verbs = [verb(name.removeprefix("toolkit-"), entry) for name, entry in scripts.items()]
namespace = Collection(*verbs, test, lint, docs, lock)
