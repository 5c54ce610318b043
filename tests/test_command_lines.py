"""Command lines that a page shows and nobody types for it: the program is there, and takes these options and values."""

import importlib.util
import re
import sys
import tomllib
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

import pytest

from toolkit.config.reference import Option, options
from toolkit.config.schema import verbs
from toolkit.config.search_path import shipped_conf

ROOT = Path(__file__).resolve().parents[1]
PROSE = [*ROOT.glob("docs/*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "requirements/README.md"]
SHOWN = re.compile(r"(?:^    |`)((?:\./quickstart|invoke|toolkit-\w+|python3? (?:-m )?[\w./]+)[^`\n]*)", re.MULTILINE)
"""An indented line or a code span that begins with a program of ours, or with Python."""
VERBS = {
    name.removeprefix("toolkit-")
    for name in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
}
TASKS = {"test", "lint", "docs", "lock"}
PLACEHOLDER = re.compile(r"[A-Z][A-Z.]*")
"""What a reader puts in, such as NAME or GROUP.OPTION."""


def shown(page: Path) -> Iterator[str]:
    """Command lines without what is said of them: behind a `#`, or behind two blanks in a list of ./quickstart's."""
    for text in SHOWN.findall(page.read_text(encoding="utf-8")):
        yield re.split(r"\s{2,}" if text.startswith("./quickstart") else r"\s{2,}#", text)[0]


def faults(line: str) -> Iterator[str]:
    program, *words = re.sub(r"[\[\]]", "", line).split()
    if program.startswith("python"):
        yield from python_faults(words)
    elif program.startswith("toolkit-"):
        yield from verb_faults(program.removeprefix("toolkit-"), words)
    elif words and words[0] in VERBS:
        yield from verb_faults(words[0], [word for word in words[1:] if word != "--"])
    elif words and not (words[0] in {*TASKS, "setup", "--list"} or PLACEHOLDER.fullmatch(words[0])):
        yield f"{program} has no {words[0]}"


def python_faults(words: list[str]) -> Iterator[str]:
    module = words[1] if words[0] == "-m" and len(words) > 1 else ""
    if module.startswith("toolkit.") and not PLACEHOLDER.fullmatch(module.removeprefix("toolkit.")):
        yield from verb_faults(module.removeprefix("toolkit."), words[2:])
    elif module and not module.startswith("toolkit.") and importlib.util.find_spec(module) is None:
        yield f"there is no module {module}"
    elif words[0].endswith(".py") and not (ROOT / words[0]).is_file():
        yield f"there is no file {words[0]}"


def verb_faults(verb: str, words: list[str]) -> Iterator[str]:
    if PLACEHOLDER.fullmatch(verb):
        return
    if verb not in VERBS:
        yield f"there is no verb {verb}"
        return
    known = {option.key: option for option in options(schema_of(verb))}
    for key, equals, value in (word.lstrip("+~").partition("=") for word in words if not word.startswith("-")):
        if PLACEHOLDER.fullmatch(key.rstrip(".")):
            continue
        if not equals:
            yield f"{verb} takes no {key}"
            continue
        for one in re.split(r"[|,]", value.strip("'\"")):
            yield from value_faults(key, one, known)


def schema_of(verb: str) -> type:
    name = "runs" if verb in ("status", "stop") else verb
    return getattr(verbs, f"{name.title().replace('_', '')}Config")


def value_faults(key: str, value: str, known: dict[str, Option]) -> Iterator[str]:
    group, option = shipped_conf() / key, known.get(key)
    if option is None and not group.is_dir():
        yield f"there is no option {key}"
    elif PLACEHOLDER.fullmatch(value):
        return
    elif option is None and not (group / f"{value}.yaml").is_file():
        yield f"there is no {key} named {value}"
    elif option is not None and value not in values_of(option, value):
        yield f"{key} is never {value}"


def values_of(option: Option, value: str) -> list[str]:
    if isinstance(option.kind, type) and issubclass(option.kind, Enum):
        return [str(member.value) for member in option.kind]
    return ["true", "false"] if option.kind is bool else [value]


@pytest.mark.parametrize("page", PROSE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_is_shown_can_be_typed(page, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])  # python -m finds tests.gpu from the checkout
    assert {line: found for line in shown(page) if (found := list(faults(line)))} == {}


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("./quickstart severe", "./quickstart has no severe"),
        ("invoke dogs", "invoke has no dogs"),
        ("invoke serve -- +recipe=nobody", "there is no recipe named nobody"),
        ("toolkit-paln +recipe=NAME", "there is no verb paln"),
        ("python -m toolkit.plan [limit.max_model_len=1]", "there is no option limit.max_model_len"),
        ("python -m toolkit.plan output=json|xml", "output is never xml"),
        ("python -m toolkit.gc dry_run=yes", "dry_run is never yes"),
        ("python -m toolkit.plan -m dcp=1,3", "there is no dcp named 3"),
        ("python -m toolkit.status mine", "status takes no mine"),
        ("python -m tests.gpu.serving.proof", "there is no module tests.gpu.serving.proof"),
        ("python benchmarks/nothing.py", "there is no file benchmarks/nothing.py"),
    ],
)
def test_what_cannot_be_typed_is_found(line, fault, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    assert list(faults(line)) == [fault]


def test_many_are_shown():
    assert sum(len(list(shown(page))) for page in PROSE) > 60
