"""Run folders: one for each serve, private to the user."""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

from toolkit.config.paths import user_path
from toolkit.errors import ConfigurationError
from toolkit.planning.kv_measurement import MEASUREMENTS_FOLDER
from toolkit.planning.worker_report import WORKERS_FOLDER

LONGEST = 100
"""Characters of a deployment's name that a run's name takes: file systems take no more than 255 bytes."""


@dataclass(frozen=True)
class RunFolder:
    """The files of one run."""

    path: Path

    @property
    def name(self) -> str:
        """The run's name, which `stop` and `status` take."""
        return self.path.name

    @property
    def log(self) -> Path:
        """What the engine's processes print."""
        return self.path / "serve.log"

    @property
    def state(self) -> Path:
        """Where the run stands (state.py)."""
        return self.path / "state.json"

    @property
    def receipt(self) -> Path:
        """What was run, and how it went (receipt.py)."""
        return self.path / "receipt.json"

    @property
    def workers(self) -> Path:
        """What each worker of the engine reports of itself (worker_report.py)."""
        return self.path / WORKERS_FOLDER

    @property
    def measurements(self) -> Path:
        """What a calibration measures (kv_measurement.py)."""
        return self.path / MEASUREMENTS_FOLDER

    @property
    def config(self) -> Path:
        """The resolved configuration, secrets left out."""
        return self.path / "config.yaml"


def runs_root(configured: str) -> Path:
    """The folder that holds run folders: the configured one, or the user's state folder."""
    if configured:
        return user_path(configured, "runs").absolute()
    import platformdirs

    return platformdirs.user_state_path("volta-toolkit") / "runs"


def create(root: Path, deployment: str) -> RunFolder:
    """A new folder named after the deployment and the time, readable by its user alone.

    Raises:
        ConfigurationError: the folder cannot be made.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", deployment)[:LONGEST].strip("-.") or "run"
    name = f"{plain}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        (root / name).mkdir(mode=0o700)
    except OSError as error:
        raise ConfigurationError(
            "the run folder cannot be made", where=str(root / name), why=str(error.strerror), fix="set runs=FOLDER"
        ) from error
    return RunFolder(root / name)


def all_runs(root: Path) -> list[RunFolder]:
    """Every run below `root` that has a state and may be read, oldest first.

    Raises:
        ConfigurationError: the root is no folder, or may not be read.
    """
    try:
        folders = [RunFolder(path) for path in root.iterdir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigurationError(
            "the folder of runs cannot be read", where=str(root), why=str(error.strerror), fix="set runs=FOLDER"
        ) from error
    dated = [(written, run) for run in folders if (written := _written(run.state)) is not None]
    return [run for _, run in sorted(dated, key=lambda pair: pair[0])]


def _written(state: Path) -> float | None:
    """When a state was written; None where there is none to be seen, or it has just been removed."""
    try:
        return state.stat().st_mtime
    except OSError:
        return None
