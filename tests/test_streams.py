"""A verb whose standard streams are closed, full or taken by something else does its work all the same."""

import ast
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "config"))
import cli

TOOLKIT = cli.REPOSITORY / "toolkit"
MAY_PRINT = {"streams.py", "display/terminal.py"}


def shell(line: str, *arguments: str, **env: str) -> subprocess.CompletedProcess:
    """Run a verb as a shell line would, with redirections that subprocess does not offer."""
    command = ["sh", "-c", f'exec "$@" {line}', "sh", sys.executable, "-m", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=cli.REPOSITORY, env={**os.environ, **env}, timeout=60
    )


VERBS = [
    ["toolkit.plan", "+recipe=tiny_random_cpu"],
    ["toolkit.serve", "+recipe=tiny_random_cpu", "dry_run=true", cli.on_unused_port()],
    ["toolkit.status"],
    ["toolkit.verify"],
    ["toolkit.gc", "dry_run=true"],
]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_does_not_stop_a_verb(verb, closed, tmp_path):
    result = shell(closed, *verb, XDG_STATE_HOME=str(tmp_path), XDG_CACHE_HOME=str(tmp_path))
    assert (result.returncode, result.stderr) == (0, "")
    assert bool(result.stdout) == (">&- 2" not in closed)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_a_full_disk_is_an_error_of_every_verb(verb, tmp_path):
    result = shell(">/dev/full", *verb, XDG_STATE_HOME=str(tmp_path), XDG_CACHE_HOME=str(tmp_path))
    assert result.returncode == 5
    assert result.stderr == (
        f"error: the output cannot be written\n  where: standard output\n  why: {os.strerror(errno.ENOSPC)}\n"
    )


@pytest.mark.parametrize("lost", ["2>/dev/full", "2>&-", ">/dev/full 2>/dev/full"])
def test_an_error_that_nobody_can_read_keeps_its_exit_code(lost):
    assert shell(lost, "toolkit.plan", "+recipe=no_such").returncode == 2


def test_a_strangers_escape_is_told_and_not_obeyed(tmp_path):
    recipe = '# @package _global_\ndefaults: [{override /checkpoint: smollm2}]\ncheckpoint: {name: "a\\x1b[2Jb"}\n'
    cli.write(tmp_path, {"recipe/evil.yaml": recipe})
    for asked in (("+recipe=evil",), ("+recipe=tiny_random_cpu", "compare=evil", "fit=true")):
        result = cli.call("plan", "--config-dir", str(tmp_path), *asked)
        assert (result.returncode, result.stderr) == (0, "")
        assert "\x1b" not in result.stdout
        assert "a\\x1b[2Jb" in result.stdout
    result = cli.call("plan", "+recipe=\x1b[31mred")
    assert result.returncode == 2
    assert "\x1b" not in result.stderr
    assert "\\x1b[31mred" in result.stderr


def test_a_file_never_becomes_a_closed_stream(tmp_path):
    program = (
        "import sys; from toolkit.streams import complete_streams; complete_streams(); "
        f"file = open({str(tmp_path / 'precious')!r}, 'w'); print('lost'); print('lost', file=sys.stderr); "
        "sys.exit(file.fileno() < 3 or sys.stdin.read() != '')"
    )
    command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", program]
    assert subprocess.run(command, check=False, cwd=cli.REPOSITORY, timeout=60).returncode == 0
    assert (tmp_path / "precious").read_text() == ""


def prints(path: Path) -> bool:
    calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    return any(isinstance(call, ast.Name) and call.id == "print" for call in calls)


def test_everything_is_printed_through_say_and_tell():
    assert {str(path.relative_to(TOOLKIT)) for path in TOOLKIT.rglob("*.py") if prints(path)} <= MAY_PRINT | {
        "native/check/fresh.py"  # a program of its own, whose output check reads
    }
