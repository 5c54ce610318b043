"""./quickstart: installs what a command needs into an environment, once, and becomes that command."""

from __future__ import annotations

import difflib
import os
import re
import shutil
import signal
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[2]
if not __package__:  # started by ./quickstart, before anything is installed
    sys.path.insert(0, str(ROOT))

from toolkit.errors import CheckFailedError, ConfigurationError, ToolkitError  # noqa: E402
from toolkit.setup import host, stamp  # noqa: E402
from toolkit.setup.install import ensure  # noqa: E402
from toolkit.setup.place import VENVS, Place  # noqa: E402
from toolkit.setup.progress import say  # noqa: E402

USAGE = """\
usage: ./quickstart serve [OVERRIDE...]     serve a model; SmolLM2 on the CPU where no +recipe=NAME is given
       ./quickstart test [PYTEST ARGUMENT...]   ruff, mypy and the whole test suite, or the files that are named
       ./quickstart setup [engine=cpu|v100]     install only
       ./quickstart VERB [ARGUMENT...]      any other verb: {verbs}

Each first makes .venv beside this file and installs exact versions into it (requirements/), once; with the argument
engine=v100, and for the whole test suite, also .venv-v100, with CUDA's libraries. Needs Python 3.11 to 3.14 with venv,
about 5 GB of disk (12 GB more for .venv-v100), and a package index. PYTHON=/path/to/python chooses the interpreter.

  ./quickstart serve until=answered server.port=8123
  ./quickstart serve +recipe=tiny_random_cpu
  ./quickstart plan engine=v100 +recipe=qwen38_27b_nvfp4
  ./quickstart test tests/planning -k memory
"""
DEFAULT_RECIPE = "+recipe=smollm2_cpu"
ENGINES = {f"engine={name}": name for name in VENVS}
# Variables that do not fit it: another Python's home, and a ban on byte code, which pip leaves to the first import.
UNFIT = ("PYTHONHOME", "PYTHONDONTWRITEBYTECODE")
# Arguments that choose what to serve: a recipe, an earlier run's receipt, or a primary configuration of one's own.
CHOOSES = re.compile(r"\+{0,2}recipe(@\w*)?=|\+{0,2}receipt=|--config-name|--config-path|-cn\b|-cp\b")


class Stopped(BaseException):
    """A signal came while something was being installed."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def stop(number: int, _frame: FrameType | None) -> None:
    """Turn a signal into an exception, so that pip is stopped and the lock is let go."""
    raise Stopped(number)


def let_pythons_read(root: Path) -> None:
    """Let the environment's Python read the file that leads to this checkout.

    Python 3.11 and 3.12 decode it as the locale says, and LC_ALL=C knows no letter beyond ASCII.
    """
    if not str(root).isascii() and os.environ.get("LC_ALL") in ("C", "POSIX"):
        os.environ["LC_ALL"] = "C.UTF-8"


def verbs() -> list[str]:
    """The toolkit's verbs, which are its console scripts."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [name.removeprefix("toolkit-") for name in project.get("scripts", {})]


def command(verb: str, arguments: Sequence[str]) -> list[str]:
    """The arguments for the environment's interpreter."""
    if verb == "test":
        return ["-m", "pytest", *arguments]
    chosen = verb != "serve" or any(CHOOSES.match(argument) for argument in arguments)
    return ["-P", "-m", f"toolkit.{verb}", *([] if chosen else [DEFAULT_RECIPE]), *arguments]


def setup_only(arguments: Sequence[str]) -> None:
    """Read `setup`'s argument; ConfigurationError for what cannot be installed."""
    for argument in arguments:
        if argument not in ENGINES:
            known = " or ".join(ENGINES)
            raise ConfigurationError(f"setup does not know {argument!r}", fix=f"./quickstart setup {known}")


def named_tests(arguments: Sequence[str]) -> list[str]:
    """The files and folders of the suite that pytest's arguments name; an option, or what it is set to, names none."""
    paths = (argument.partition("::")[0] for argument in arguments if not argument.startswith("-"))
    return [path for path in paths if path.endswith(".py") or (ROOT / path).exists()]


def left_out() -> Iterator[str]:
    """What the tests that are about to run will skip for want of something, each with the way to it."""
    if shutil.which("c++") is None:
        yield "no C++ compiler: tests that build the native library are skipped (apt-get install g++ for them)"
    v100 = Place(ROOT, "v100")
    if not stamp.valid(v100, "v100"):
        yield f"no {v100.venv.name}: tests of engine=v100 are skipped (./quickstart setup engine=v100 for them)"


def needs(verb: str, arguments: Sequence[str]) -> list[tuple[str, str]]:
    """(engine, set) of each environment that a command needs; it runs in the first.

    The test suite looks into the V100's environment too; files of it that are named take it as they find it.
    """
    if verb == "test":
        return [("cpu", "test"), *([] if named_tests(arguments) else [("v100", "v100")])]
    chosen = next((ENGINES[argument] for argument in reversed(arguments) if argument in ENGINES), "cpu")
    return [(chosen, chosen)]


def become(place: Place, arguments: list[str]) -> None:
    """Replace this process by its interpreter, as in an activated shell: signals and exit code are then its own."""
    environment = {name: value for name, value in os.environ.items() if name not in UNFIT}
    environment["VIRTUAL_ENV"] = str(place.venv)
    environment["PATH"] = os.pathsep.join([str(place.python.parent), os.environ.get("PATH", os.defpath)])
    sys.stderr.flush()
    os.execve(place.python, [str(place.python), *arguments], environment)  # noqa: S606 - a list, and no shell is wanted


def run(arguments: Sequence[str]) -> int:
    """Carry out one command line; returns only where there is nothing to become. Raises ToolkitError."""
    usage = USAGE.format(verbs=", ".join(verb for verb in verbs() if verb != "serve"))
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        (sys.stdout if arguments else sys.stderr).write(usage)
        return 0 if arguments else 2
    verb, *rest = arguments
    known = ["serve", "test", "setup", *verbs()]
    if verb not in known:
        near = difflib.get_close_matches(verb, known, n=1)
        raise ConfigurationError(
            f"quickstart does not know {verb!r}", fix=f"./quickstart {near[0]}" if near else "./quickstart --help"
        )
    if verb == "setup":
        setup_only(rest)
    if why := host.unfit():
        raise CheckFailedError(
            f"the pinned packages are for Linux on x86-64 with glibc {'.'.join(map(str, host.OLDEST_GLIBC))} or newer",
            why=why,
            fix="take a newer system (Debian 11, Ubuntu 20.04, RHEL 9, or newer), or a container of one",
        )
    version = "{}.{}".format(*sys.version_info[:2]) if os.environ.get("PYTHON") else None
    wanted = [(Place(ROOT, engine), name) for engine, name in needs(verb, rest)]
    for place, name in wanted:
        ensure(place, name, version)
    place = wanted[0][0]
    if verb == "setup":
        say(f"ready: {place.python}")
        return 0
    if verb == "test":
        for what in left_out():
            say(what)
        os.chdir(ROOT)
    become(place, command(verb, rest))
    return 1


def main() -> int:
    """Run and report."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)
    let_pythons_read(ROOT)
    try:
        return run(sys.argv[1:])
    except ToolkitError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except Stopped as stopped:
        name = signal.Signals(stopped.number).name
        sys.stderr.write(f"stopped by {name}; the same command goes on from here\n")
        return 128 + stopped.number


if __name__ == "__main__":
    raise SystemExit(main())
