"""What the pages show is what happens: console blocks are typed, every other command line is read."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "config"))
sys.path.insert(0, str(Path(__file__).parent / "views"))
import cli
from view_samples import make_base, pack_for, scales_for, write_pack

PROSE = [*cli.REPOSITORY.glob("docs/*.md"), cli.REPOSITORY / "README.md", cli.REPOSITORY / "requirements/README.md"]


def relative(path: Path) -> str:
    return path.relative_to(cli.REPOSITORY).as_posix()


@dataclass(frozen=True)
class Example:
    """One command, what it shows, and its exit code."""

    command: str
    shown: tuple[str, ...]
    code: int


@dataclass(frozen=True)
class Block:
    """A console block of a page: commands that are typed one after the other."""

    page: str
    examples: tuple[Example, ...]


def blocks(page: Path) -> list[Block]:
    found = re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    return [Block(page.name, tuple(examples(text))) for text in found]


def examples(text: str) -> Iterator[Example]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, *shown = part.splitlines()
        command, _, code = line.partition("  # exit ")
        yield Example(command, tuple(shown), int(code or 0))


BLOCKS = [block for page in PROSE for block in blocks(page)]


@pytest.fixture
def reader(tmp_path: Path) -> Path:
    """A reader's home, with every file that the pages name, a checkpoint DIR and its scale pack PACK."""
    for page in PROSE:
        text = page.read_text(encoding="utf-8")
        cli.write(tmp_path, dict(re.findall(r"`([\w/]+\.yaml)`:\n\n```yaml\n(.*?)```", text, re.DOTALL)))
    write_pack(tmp_path / "PACK", pack_for(make_base(tmp_path / "DIR"), scales_for()))
    (tmp_path / "tests").symlink_to(cli.REPOSITORY / "tests")
    program = tmp_path / "bin/python"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    program.chmod(0o755)
    return tmp_path


def typed(command: str, home: Path) -> subprocess.CompletedProcess[str]:
    """What a shell makes of it; a server is planned and not started."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("VLLM_", "HYDRA_", "XDG_"))}
    ours = {"HOME": str(home), "PYTHONPATH": str(cli.REPOSITORY), "COLUMNS": "80", "NO_COLOR": "1"}
    planned = f"{command} dry_run=true" if command.startswith("python -m toolkit.serve ") else command
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", planned],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        cwd=home,
        env={**kept, **ours, "PATH": f"{home / 'bin'}:{os.environ['PATH']}"},
        timeout=120,
    )


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.page}: {block.examples[0].command}")
def test_a_block_does_what_its_page_shows(block, reader):
    for example in block.examples:
        result = typed(example.command, reader)
        assert result.returncode == example.code, f"{example.command}\n{result.stdout}"
        rest = iter(result.stdout.splitlines())
        for line in example.shown:
            assert any(line.rstrip() in printed for printed in rest), f"{line!r} is not printed, or not in this order"


@pytest.mark.parametrize("page", PROSE, ids=relative)
def test_what_is_fenced_is_run_or_is_a_file(page):
    """A page shows in a console block what a test types, and in a yaml block a file that such a block then uses."""
    text = page.read_text(encoding="utf-8")
    assert set(re.findall(r"^ *```(.*)$", text, re.MULTILINE)[::2]) <= {"console", "yaml"}
    assert text.count("```yaml") == len(re.findall(r"`[\w/]+\.yaml`:\n\n```yaml\n", text))
    assert all(block.examples for block in blocks(page))


def test_there_are_examples():
    assert {block.page for block in BLOCKS} >= {"README.md", "plan.md", "doctor.md", "recipes.md", "exit-codes.md"}
    shows = [example.shown for block in BLOCKS for example in block.examples if block.page != "README.md"]
    assert sum(map(bool, shows)) > 15
