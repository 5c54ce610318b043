"""A small checkout with the real ./quickstart and the real pip, which installs tiny wheels made here; no network."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

PYPROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["build_backend"]

[project]
name = "volta-toolkit"
version = "0.1.0"
entry-points."vllm.general_plugins".volta = "toolkit.plugin:register"
scripts.toolkit-serve = "toolkit.serve:main"
scripts.toolkit-plan = "toolkit.plan:main"
"""

# An editable install in the shortest form. Where the file `hold` exists it says that it is there and then waits.
BACKEND = """\
import os, zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

def build_editable(folder, config_settings=None, metadata_directory=None):
    if (ROOT / "hold").exists():
        (ROOT / "held").write_text(str(os.getppid()))
        os.open(ROOT / "hold", os.O_RDONLY)  # a FIFO: blocks until the test opens its other end
    name = "volta_toolkit-0.1.0-py3-none-any.whl"
    info = "volta_toolkit-0.1.0.dist-info"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.writestr("volta.pth", str(ROOT))
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: volta-toolkit\\nVersion: 0.1.0\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/entry_points.txt", "[vllm.general_plugins]\\nvolta = toolkit.plugin:register\\n"
            "[vllm.platform_plugins]\\nvolta = toolkit.plugin:platform_class\\n")
        wheel.writestr(f"{info}/RECORD", f"volta.pth,,\\n{info}/METADATA,,\\n{info}/WHEEL,,\\n{info}/RECORD,,\\n")
    return name
"""

# Stands for a verb: says what it got, and ends as it is told.
VERB = """\
import json, os, sys
print(json.dumps({"pid": os.getpid(), "arguments": sys.argv[1:], "folder": os.getcwd(), "python": sys.executable,
    "venv": os.environ["VIRTUAL_ENV"], "first": os.environ["PATH"].split(":")[0], "bare": sys.dont_write_bytecode}))
sys.stdout.flush()
if "wait" in sys.argv:
    import signal
    signal.pause()
sys.exit(next((int(a[5:]) for a in sys.argv if a.startswith("exit=")), 0))
"""


def tiny_wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> None:
    """A wheel with those files."""
    info = f"{name}-{version}.dist-info"
    contents = files | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,{len(text)}\n" for path, text in contents.items()) + f"{info}/RECORD,,\n"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in (contents | {f"{info}/RECORD": record}).items():
            entry = zipfile.ZipInfo(path)
            entry.external_attr = (0o100755 if "/bin/" in path else 0o100644) << 16
            wheel.writestr(entry, text)


@dataclass
class Checkout:
    """A folder to run ./quickstart in."""

    root: Path
    wheels: Path
    settings: dict[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """No index and no pip configuration but the tiny wheels."""
        ours = {n: v for n, v in os.environ.items() if not n.startswith(("PIP_", "PYTHON"))}
        return ours | {
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": self.wheels.as_uri(),
            "PIP_CONFIG_FILE": os.devnull,
            **self.settings,
        }

    def start(self, *arguments: str, folder: Path | None = None) -> subprocess.Popen[str]:
        """Start ./quickstart in a process group of its own."""
        return subprocess.Popen(
            [self.root / "quickstart", *arguments],
            cwd=folder or self.root,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run ./quickstart to its end."""
        process = self.start(*arguments, folder=folder)
        out, err = process.communicate(timeout=240)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    @property
    def packages(self) -> Path:
        """site-packages of the environment."""
        return self.packages_of(".venv")

    def packages_of(self, venv: str) -> Path:
        """site-packages of one of the environments."""
        return next((self.root / venv / "lib").glob("python3*")) / "site-packages"

    def version(self, module: str, venv: str = ".venv") -> str:
        """What a tiny package's module says."""
        command = [self.root / venv / "bin/python", "-I", "-c", f"import {module}; print({module}.VERSION)"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace text in one of the checkout's files."""
        file = self.root / path
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    def forget(self) -> None:
        """Leave what is installed and take the stamps that vouch for it."""
        for stamp in self.root.glob(".venv*/.installed-*"):
            stamp.unlink()

    def hold(self) -> None:
        """Make the next installation wait in its last phase."""
        os.mkfifo(self.root / "hold")
        self.forget()

    def held(self, process: subprocess.Popen[str]) -> int:
        """Wait until the installation is there; returns pip's process id."""
        marker = self.root / "held"
        while not (marker.exists() and marker.read_text()):
            assert process.poll() is None, process.communicate()
        return int(marker.read_text())

    def let_go(self) -> None:
        """Let a held installation go on, and no later one wait."""
        os.close(os.open(self.root / "hold", os.O_WRONLY))
        (self.root / "hold").unlink()


def lay(checkout: Checkout) -> Checkout:
    """Write a checkout's files, over those that are there; what is installed stays."""
    root = checkout.root
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "toolkit/setup", root / "toolkit/setup", ignore=ignored, dirs_exist_ok=True)
    for name in ("quickstart", "toolkit/__init__.py", "toolkit/errors.py", "toolkit/counted.py"):
        shutil.copy(REPOSITORY / name, root / name)
    files = {
        "pyproject.toml": PYPROJECT,
        "build_backend/backend.py": BACKEND,
        "toolkit/serve.py": VERB,
        "toolkit/plan.py": VERB,
        "requirements/build.txt": "tiny-build==1\n",
        "requirements/cpu.txt": "# a comment\ntiny-engine==1\nabsent==1; python_version < '3'\n",
        "requirements/test.txt": "pytest==1\n",
        "requirements/v100.txt": "torch==1\ntriton==1\ntiny-nccl==1\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for name in ("hold", "held"):
        (root / name).unlink(missing_ok=True)
    return checkout
