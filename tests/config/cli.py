"""Verbs as users call them: a process, its output and its exit code."""

import os
import socket
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def on_unused_port() -> str:
    """The override for a port on which nothing listens: whoever runs the tests may be serving on the usual one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"server.port={probe.getsockname()[1]}"


def call(verb: str, *arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """`python -m toolkit.VERB ARGUMENTS`, without a terminal and without colour."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HYDRA_", "VLLM_", "VOLTA_"))}
    env = {**kept, "COLUMNS": "120", "NO_COLOR": "1", "PYTHONPATH": str(REPOSITORY), **environment}
    return subprocess.run(
        [sys.executable, "-m", f"toolkit.{verb}", *arguments],
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
        cwd=cwd or REPOSITORY,
        env=env,
        stdin=subprocess.DEVNULL,
    )


def first_line(text: str) -> str:
    return text.splitlines()[0] if text else ""


def write(folder: Path, files: dict[str, str]) -> Path:
    """A folder of configuration."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder
