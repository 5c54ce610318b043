"""The documentation is current: generated pages, tables of codes and recipes, and what is named is there."""

import re
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import get_type_hints

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent / "config"))
import cli

from toolkit import errors
from toolkit.config.docs import generated
from toolkit.config.reference import options
from toolkit.config.schema import verbs
from toolkit.config.search_path import shipped_conf

DOCS = cli.REPOSITORY / "docs"
TOOLKIT = cli.REPOSITORY / "toolkit"
PROSE = [*DOCS.glob("*.md"), DOCS.parent / "README.md", DOCS.parent / "CHANGELOG.md"]
ROOTS = [kind for kind in vars(verbs).values() if is_dataclass(kind) and kind.__module__ == verbs.__name__]


def relative(path: Path) -> str:
    return path.relative_to(cli.REPOSITORY).as_posix()


@pytest.mark.parametrize("name", generated())
def test_a_generated_page_is_current(name):
    assert (cli.REPOSITORY / name).read_text(encoding="utf-8") == generated()[name], "run `invoke docs`"


@pytest.mark.parametrize("root", ROOTS, ids=lambda root: root.__name__)
def test_every_option_and_group_is_explained(root):
    unexplained = [option.key for option in options(root) if len(option.documentation) < 5]
    assert unexplained == []
    groups = [kind for field in fields(root) if is_dataclass(kind := get_type_hints(root)[field.name])]
    assert all((kind.__doc__ or "").strip() and not kind.__doc__.startswith(f"{kind.__name__}(") for kind in groups)


def test_every_option_stands_in_config_md():
    page = (DOCS / "config.md").read_text(encoding="utf-8")
    assert [option.key for root in ROOTS for option in options(root) if f"| `{option.key}` |" not in page] == []


def test_the_exit_codes_are_those_of_the_errors():
    rows = re.findall(
        r"^\| (\d) \|.*\| `(\w+)` \|$", (DOCS / "exit-codes.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    classes = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.ToolkitError)
    ]
    assert {name: int(code) for code, name in rows} == {
        kind.__name__: kind.exit_code for kind in classes if kind is not errors.ToolkitError
    }


def test_every_shipped_recipe_is_listed_with_its_status():
    page = (DOCS / "recipes.md").read_text(encoding="utf-8")
    files = (shipped_conf() / "recipe").glob("*.yaml")
    recipes = {file.stem: yaml.safe_load(file.read_text(encoding="utf-8"))["recipe"]["status"] for file in files}
    assert dict(re.findall(r"^\| `(\w+)` \| ([\w ]+) \| .* \|$", page, re.MULTILINE)) == recipes


@pytest.mark.parametrize("page", PROSE, ids=relative)
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)]+)\)", text) if "://" not in target]
    assert [target for target in targets if target and not (page.parent / target).exists()] == []


NAMED = re.compile(r"(?<![\w/.-])(?:tests|toolkit|docs|planning)/[\w/.-]*\w\.(?:py|md|txt|yaml|jsonl|json|svg)\b")
"""A file of ours in a text; in toolkit/ the package's own name may be left out, as in planning/plan.py."""


def test_a_file_that_is_named_is_there():
    texts = {relative(path): path.read_text(encoding="utf-8") for path in (*TOOLKIT.rglob("*.py"), *PROSE)}
    named = {(page, name) for page, text in texts.items() for name in NAMED.findall(text)}
    assert len(named) > 50
    places = [name for name in named if not re.search(r"/[A-Z]+\.", name[1])]  # conf/NAME.yaml stands for any
    assert [name for name in places if not any((root / name[1]).exists() for root in (cli.REPOSITORY, TOOLKIT))] == []


@pytest.mark.parametrize("page", PROSE, ids=relative)
def test_a_table_is_one_block(page):
    """A line between its rows would end it, and those below would be shown as they are written."""
    blocks = re.findall(r"(?:^ *\|.*\n)+", page.read_text(encoding="utf-8"), re.MULTILINE)
    columns = [[len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()] for block in blocks]
    assert [block.splitlines()[0] for block, count in zip(blocks, columns, strict=True) if len(set(count)) > 1] == []
    assert [block.splitlines()[0] for block in blocks if not re.match(r".*\n *\|[|: -]+\n", block)] == []
