"""A count and its noun agree, in every text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolkit.counted import counted

TOOLKIT = Path(__file__).parents[1] / "toolkit"
NOT_A_NOUN = {"is", "has", "was", "times"}


@pytest.mark.parametrize(
    ("number", "nouns", "text"),
    [
        (0, ("fault",), "0 faults"),
        (1, ("fault",), "1 fault"),
        (1024, ("byte",), "1,024 bytes"),
        (1, ("rule refuses", "rules refuse"), "1 rule refuses"),
        (2, ("rule refuses", "rules refuse"), "2 rules refuse"),
    ],
)
def test_the_noun_agrees_with_its_number(number: int, nouns: tuple[str, ...], text: str) -> None:
    assert counted(number, *nouns) == text


def bare_counts(tree: ast.AST) -> Iterator[str]:
    """A length and a plural behind it in an f-string, where the length may be 1."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, after in zip(node.values, node.values[1:], strict=False):
            if isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant):
                noun = re.match(r" ([a-z]+s)\b", str(after.value))
                if noun and noun[1] not in NOT_A_NOUN and ast.unparse(value.value).startswith("len("):
                    yield f"{node.lineno}: {ast.unparse(node)}"


def test_bare_counts_are_found() -> None:
    tree = ast.parse("f'{len(found)} faults'; f'{len(text):,} bytes'; f'{name} has'; f'{len(x)} of'; f'{len(x)} times'")
    assert len(list(bare_counts(tree))) == 2


def test_no_text_counts_without_agreement() -> None:
    found = {path: list(bare_counts(ast.parse(path.read_text(encoding="utf-8")))) for path in TOOLKIT.rglob("*.py")}
    assert {path: bare for path, bare in found.items() if bare} == {}
