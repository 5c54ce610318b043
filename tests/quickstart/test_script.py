"""./quickstart from outside: what it installs, what it starts, and what it says."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from .small_checkout import Checkout, tiny_wheel


def heard(output: str) -> dict[str, object]:
    return json.loads(output)


def first_line(result: subprocess.CompletedProcess[str]) -> str:
    return next(line for line in result.stderr.splitlines() if not line.startswith("quickstart: "))


def test_serve_installs_once_and_passes_arguments_and_exit_code(checkout: Checkout, tmp_path: Path) -> None:
    first = checkout.run("serve", "until=answered", "server.port=8123", "name=a b", "exit=6", folder=tmp_path)
    assert first.returncode == 6, first.stderr
    said = heard(first.stdout)
    assert said["arguments"] == ["+recipe=smollm2_cpu", "until=answered", "server.port=8123", "name=a b", "exit=6"]
    assert said["folder"] == str(tmp_path)
    assert said["python"] == str(checkout.root / ".venv/bin/python")
    assert "[5/5] check: " in first.stderr
    assert not (checkout.root / ".venv-setup/tmp").exists()

    log = (checkout.root / ".venv-setup/install.log").stat()
    second = checkout.run("serve")
    assert (second.returncode, second.stderr) == (0, "")
    assert (checkout.root / ".venv-setup/install.log").stat() == log


def test_test_adds_the_test_tools_and_runs_them_in_the_checkout(installed: Checkout, tmp_path: Path) -> None:
    result = installed.run("test", "tests/x.py", "-k", "a and b", "exit=5", folder=tmp_path)
    assert not (installed.root / ".venv-v100").exists()
    assert result.returncode == 5
    said = heard(result.stdout)
    assert said["arguments"] == ["tests/x.py", "-k", "a and b", "exit=5"]
    assert said["folder"] == str(installed.root)
    assert result.stderr.count("[") == 3  # a server may run from the rest, so the rest is left alone
    assert "volta-toolkit" not in (installed.root / ".venv-setup/install.log").read_text()
    assert installed.run("serve").stderr == ""


def test_a_changed_lock_file_is_installed(installed: Checkout) -> None:
    assert installed.version("tiny_engine") == "1"
    installed.edit("requirements/cpu.txt", "tiny-engine==1", "tiny-engine==2")
    assert installed.run("setup").returncode == 0
    assert installed.version("tiny_engine") == "2"


def test_the_command_is_the_same_process_so_signals_reach_it(installed: Checkout) -> None:
    process = installed.start("serve", "wait")
    assert process.stdout is not None
    assert heard(process.stdout.readline())["pid"] == process.pid
    process.terminate()
    assert process.wait(timeout=20) == -signal.SIGTERM
    process.communicate()


def test_the_command_runs_as_in_an_activated_shell(installed: Checkout) -> None:
    installed.settings = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHOME": "/nowhere"}
    said = heard(installed.run("plan", "-m").stdout)
    assert said["arguments"] == ["-m"]
    assert (said["venv"], said["first"]) == (str(installed.root / ".venv"), str(installed.root / ".venv/bin"))
    assert said["bare"] is False


def test_terminated_while_installing_it_stops_pip_and_the_next_run_goes_on(installed: Checkout) -> None:
    installed.hold()
    process = installed.start("setup")
    pip = psutil.Process(installed.held(process))
    process.terminate()
    _, err = process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGTERM
    assert err.splitlines()[-1] == "stopped by SIGTERM; the same command goes on from here"
    assert not pip.is_running()
    assert not (installed.root / ".venv/.installed-cpu").exists()
    (installed.root / "hold").unlink()
    assert installed.run("serve").returncode == 0


def test_killed_while_installing_its_pip_keeps_the_lock_and_the_next_run_repairs(installed: Checkout) -> None:
    installed.hold()
    killed = installed.start("setup")
    pip = installed.held(killed)
    killed.kill()
    killed.communicate()
    second = installed.start("serve")
    assert second.stderr is not None
    waiting = second.stderr.readline()
    assert waiting == "quickstart: another ./quickstart is installing here; waiting for it\n"
    (installed.root / "hold").unlink()
    os.killpg(os.getpgid(pip), signal.SIGKILL)
    out, err = second.communicate(timeout=120)
    assert second.returncode == 0, err
    assert heard(out)["arguments"] == ["+recipe=smollm2_cpu"]


@pytest.mark.parametrize("phase", [1, 2, 3, 4])
def test_killed_after_any_phase_the_next_run_goes_on(installed: Checkout, phase: int) -> None:
    installed.forget()
    process = installed.start("serve")
    assert process.stderr is not None
    while f"[{phase}/5]" not in process.stderr.readline():
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (installed.root / ".venv/.installed-cpu").exists()
    assert installed.run("serve", "exit=3").returncode == 3
    assert installed.run("serve").stderr == ""


def test_two_at_once_install_once(installed: Checkout) -> None:
    installed.hold()
    first = installed.start("serve", "n=1")
    installed.held(first)
    second = installed.start("serve", "n=2")
    assert second.stderr is not None
    assert "waiting for it" in second.stderr.readline()
    installed.let_go()
    outputs = [process.communicate(timeout=120) for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0]
    assert [heard(out)["arguments"][-1] for out, _ in outputs] == ["n=1", "n=2"]
    assert "installing into" in outputs[0][1]
    assert outputs[1][1] == ""


def test_a_package_that_a_kill_left_half_installed_is_installed_again(installed: Checkout) -> None:
    installed.forget()
    (installed.packages / "tiny_engine.py").write_text("")  # its metadata still says that it is there
    result = installed.run("setup")
    assert result.returncode == 0
    assert ".venv: tiny_engine-1 was not installed in full and is installed again" in result.stderr
    assert installed.version("tiny_engine") == "1"


def test_an_environment_of_ours_that_does_not_work_is_made_again(installed: Checkout) -> None:
    (installed.root / ".venv/bin/python").unlink()
    result = installed.run("serve")
    assert result.returncode == 0
    assert "quickstart: .venv: the old one did not work and was deleted" in result.stderr
    assert installed.version("tiny_engine") == "1"


def test_a_checkout_that_was_moved_gets_a_new_environment(installed: Checkout) -> None:
    moved = Checkout(installed.root.rename(installed.root.with_name("elsewhere")), installed.wheels)
    result = moved.run("serve")
    assert result.returncode == 0
    assert heard(result.stdout)["python"] == str(moved.root / ".venv/bin/python")
    assert str(installed.root) not in (moved.root / ".venv/bin/pip").read_text()


def test_an_environment_may_be_on_another_disk(checkout: Checkout, tmp_path: Path) -> None:
    large = tmp_path / "large disk"
    large.mkdir()
    (checkout.root / ".venv").symlink_to(large)
    assert checkout.run("serve").returncode == 0
    assert (checkout.root / ".venv").readlink() == large
    assert (large / "bin/python").exists()
    assert checkout.run("serve").stderr == ""


def test_an_index_that_does_not_answer_is_named_without_a_traceback(installed: Checkout) -> None:
    installed.edit("requirements/cpu.txt", "tiny-engine==1", "tiny-engine==2")
    installed.settings = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_NO_INDEX": "0", "PIP_RETRIES": "1"}
    installed.settings["PIP_FIND_LINKS"] = ""
    result = installed.run("serve")
    assert result.returncode == 5
    assert first_line(result) == "error: pip could not install tiny-engine==2: the package index did not answer"
    assert "fix: check the network" in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    installed.settings = {}
    assert installed.run("serve").returncode == 0


def test_a_package_that_the_index_lacks_is_named(installed: Checkout) -> None:
    installed.edit("requirements/cpu.txt", "tiny-engine==1", "tiny-engine==3")
    result = installed.run("setup")
    assert result.returncode == 5
    assert first_line(result) == (
        "error: pip could not install tiny-engine==3: "
        "the package index has no build of it for this machine and this Python"
    )


@pytest.mark.parametrize("constraint", [None, "torch<=10"], ids=str)
def test_torch_comes_from_its_own_index_where_the_configured_one_lacks_it(
    installed: Checkout, tmp_path: Path, constraint: str | None
) -> None:
    own = tmp_path / "own index/torch"
    own.mkdir(parents=True)
    tiny_wheel(own, "torch", "9.9+cpu", {"torch.py": "VERSION = '9.9+cpu'\n"})
    (own / "index.html").write_text('<a href="torch-9.9%2Bcpu-py3-none-any.whl">torch-9.9+cpu-py3-none-any.whl</a>')
    installed.edit("toolkit/setup/pip.py", "https://download.pytorch.org/whl/cpu", own.parent.as_uri())
    installed.edit("requirements/cpu.txt", "tiny-engine==1\n", "tiny-engine==1\ntorch==9.9+cpu\n")
    installed.settings = {"PIP_NO_INDEX": "0", "PIP_INDEX_URL": (tmp_path / "empty").as_uri()}
    if constraint is not None:  # pip then speaks of a conflict
        (tmp_path / "constraints.txt").write_text(constraint)
        installed.settings["PIP_CONSTRAINT"] = str(tmp_path / "constraints.txt")
    result = installed.run("setup")
    assert result.returncode == 0, result.stderr
    assert "[3/6] torch==9.9+cpu: " in result.stderr
    assert installed.version("torch") == "9.9+cpu"


def test_a_disk_that_is_too_small_is_refused_before_anything_is_made(checkout: Checkout) -> None:
    checkout.edit("toolkit/setup/space.py", '"cpu": 4 * GB', '"cpu": 10**9 * GB')
    result = checkout.run("serve")
    assert result.returncode == 5
    assert first_line(result).startswith("error: the disk is too small: ")
    assert "fix: free some space, or let .venv be a link" in result.stderr
    assert not (checkout.root / ".venv").exists()


def test_a_wrong_installation_is_not_stamped(installed: Checkout) -> None:
    installed.forget()
    installed.edit("build_backend/backend.py", "[vllm.general_plugins]", "[elsewhere]")
    result = installed.run("setup")
    assert result.returncode == 5
    wrong = "the toolkit's entry point is not in vllm.general_plugins"
    assert first_line(result) == f"error: the installation is not right: {wrong}"
    assert not (installed.root / ".venv/.installed-cpu").exists()
    typed = result.stderr.partition("fix: ")[2].partition(", and run")[0]
    assert shlex.split(typed) == ["rm", "-r", str(installed.root / ".venv")]


def test_a_path_beyond_ascii_is_read_whatever_the_locale_says(checkout: Checkout) -> None:
    checkout.root = checkout.root.rename(checkout.root.with_name("my ä 模"))
    checkout.settings = {"LC_ALL": "C"}
    result = checkout.run("serve")
    assert result.returncode == 0, result.stderr


def test_a_read_only_checkout_is_refused_in_words(checkout: Checkout) -> None:
    root = str(checkout.root)
    script = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$0/quickstart" setup'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, root]
    result = subprocess.run(command, env=checkout.environment(), capture_output=True, text=True, check=False)
    if "unshare" in result.stderr or "mount" in result.stderr:
        pytest.skip(f"no mount namespace here: {result.stderr.strip()}")
    assert result.returncode == 5
    assert first_line(result) == "error: the checkout cannot be written"
    assert "why: Read-only file system" in result.stderr


def interpreter(folder: Path, name: str, lie: str) -> None:
    """A Python in the folder that is the real one, except for what it is made to say of itself."""
    file = folder / name
    code = f"import sys; code = sys.argv.pop(); {lie}; exec(code)"
    file.write_text(f'#!/bin/sh\n[ "$2" = -c ] || exit 99\nexec "{sys.executable}" -I -c \'{code}\' "$3"\n')
    file.chmod(0o755)


@pytest.fixture
def only(tmp_path: Path, checkout: Checkout) -> Path:
    """A PATH with the shell's tools and no Python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in ("sh", "dirname", "readlink", "sed"):
        (folder / tool).symlink_to(str(shutil.which(tool)))
    checkout.settings = {"PATH": str(folder)}
    return folder


def test_a_python_that_is_too_old_is_refused_with_every_candidate(checkout: Checkout, only: Path) -> None:
    interpreter(only, "python3", "sys.version_info = (3, 10, 2)")
    interpreter(only, "python3.12", 'sys.exit("broken")')
    result = checkout.run("serve")
    assert result.returncode == 5
    assert result.stderr.splitlines() == [
        "error: no Python 3.11, 3.12, 3.13 or 3.14 was found",
        "  fix: apt-get install python3 python3-venv, or name one: PYTHON=/path/to/python3.11 ./quickstart ...",
        f"  rejected: {only}/python3: is Python 3.10",
        f"  rejected: {only}/python3.12: does not run",
    ]


def test_a_python_without_venv_is_refused_with_the_package_to_install(checkout: Checkout, only: Path) -> None:
    interpreter(only, "python3", 'sys.modules["ensurepip"] = None')
    result = checkout.run("serve")
    assert result.returncode == 5
    assert result.stderr.splitlines()[:2] == [
        "error: Python is here, but it cannot make a virtual environment",
        "  fix: apt-get install python3-venv",
    ]


def test_a_later_candidate_is_taken_where_the_first_will_not_do(checkout: Checkout, only: Path) -> None:
    interpreter(only, "python3", "sys.version_info = (3, 10, 2)")
    (only / "python3.11").symlink_to(sys.executable)
    assert checkout.run("--help").returncode == 0


def test_a_named_python_that_is_not_there_is_an_error(checkout: Checkout) -> None:
    checkout.settings = {"PYTHON": "/no/python"}
    result = checkout.run("serve")
    assert result.returncode == 5
    assert "  rejected: /no/python: not found" in result.stderr.splitlines()


def test_help_is_on_stdout_and_no_argument_is_a_mistake(checkout: Checkout) -> None:
    shown = checkout.run("--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith("usage: ./quickstart serve [OVERRIDE...]")
    bare = checkout.run()
    assert (bare.returncode, bare.stdout, bare.stderr) == (2, "", shown.stdout)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["srve"], "error: quickstart does not know 'srve'"),
        (["setup", "engine=gpu"], "error: setup does not know 'engine=gpu'"),
    ],
)
def test_a_wrong_command_line_is_refused(checkout: Checkout, arguments: list[str], message: str) -> None:
    result = checkout.run(*arguments)
    assert (result.returncode, first_line(result)) == (2, message)
    assert not (checkout.root / ".venv").exists()
