"""Runs pip in the virtual environment: its noise goes to the log, its failure becomes one of our errors."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from toolkit.errors import CheckFailedError
from toolkit.setup.causes import cause, package
from toolkit.setup.place import Place

# PyTorch's own index, asked for torch's CPU build where the configured index has none.
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
# What pip says where the index has none; the second where a constraint names the package as well.
ABSENT = ("No matching distribution found", "no matching distributions available")
TAIL = 12  # lines of the log shown after a failure
# Settings of the user's pip that would install something else, or elsewhere than into our environment.
CHANGING = (
    "USER",
    "TARGET",
    "PREFIX",
    "ROOT",
    "PYTHON",
    "DRY_RUN",
    "REQUIRE_HASHES",
    "NO_BINARY",
    "ONLY_BINARY",
    "PRE",
)
OVERRULED = frozenset(f"PIP_{setting}" for setting in CHANGING)


@dataclass(frozen=True)
class Pip:
    """pip of one virtual environment.

    held:  a descriptor that pip keeps open, so that the lock outlives us for as long as pip works.
    heard: called with each line that pip says.
    """

    place: Place
    held: int
    heard: Callable[[str], None]

    def install(self, *arguments: str) -> None:
        """Install without looking at dependencies; the lock files name everything.

        Raises:
            CheckFailedError: pip failed; names the package, the cause where it is known, and the log's last lines.
        """
        code, said = self._run(arguments)
        if code != 0:
            raise self._failure(code, said)

    def install_torch(self, requirement: str) -> None:
        """Install torch's CPU build from the configured index, or else from PyTorch's own."""
        code, said = self._run([requirement])
        if code != 0 and any(absent in said for absent in ABSENT):
            code, said = self._run(["--index-url", TORCH_INDEX, requirement])
        if code != 0:
            raise self._failure(code, said)

    def _run(self, arguments: Sequence[str]) -> tuple[int, str]:
        options = ["--no-deps", "--no-compile", "--no-build-isolation", "--no-input", "--disable-pip-version-check"]
        command = [
            str(self.place.python),
            "-I",
            "-u",
            "-m",
            "pip",
            "install",
            *options,
            "--progress-bar",
            "off",
            *arguments,
        ]
        environment = {n: value for n, value in os.environ.items() if n not in OVERRULED}
        environment["TMPDIR"] = str(self.place.temporary)
        said: list[str] = []
        with (
            self.place.log.open("a", encoding="utf-8") as log,
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env=environment,
                pass_fds=[self.held],
            ) as process,
        ):
            log.write(f"$ {' '.join(command)}\n")
            try:
                for line in process.stdout or ():
                    log.write(line)
                    said.append(line)
                    self.heard(line)
            except BaseException:  # a signal: pip must not work on after us
                process.terminate()
                raise
        return process.returncode, "".join(said)

    def _failure(self, code: int, said: str) -> CheckFailedError:
        known, name = cause(said), package(said)
        tail = "".join(f"\n    {line}" for line in said.rstrip().splitlines()[-TAIL:])
        return CheckFailedError(
            f"pip could not install {name or 'the packages'}" + (f": {known.why}" if known else ""),
            where=f"{self.place.log}, which ends:{tail}",
            why="" if known else f"pip ended with exit code {code}",
            fix=known.fix if known else "run the same command again; if it fails in the same way, read the log",
        )
