"""Looks at a finished installation from inside it: the versions, torch's build, our entry points.

    .venv/bin/python -I -m toolkit.setup.check cpu requirements/cpu.txt ...

Prints a line for each thing that is wrong and exits 1, or nothing and 0.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, entry_points, version
from importlib.util import find_spec
from pathlib import Path

from toolkit.setup import v100

BESIDE_TORCH = ("torchvision", "torchaudio", "torchcodec")  # the registry's builds do not load beside torch's CPU build


def wrong_versions(files: list[str]) -> Iterator[str]:
    """Pinned packages that are absent or of another version."""
    from pip._vendor.packaging.requirements import Requirement  # pip is the one package that is always there

    for line in (line for file in files for line in Path(file).read_text(encoding="utf-8").splitlines()):
        if line.startswith("#") or not line.strip():
            continue
        wanted = Requirement(line)
        if wanted.marker is not None and not wanted.marker.evaluate():
            continue
        try:
            installed = version(wanted.name)
        except PackageNotFoundError:
            yield f"{wanted.name} is not installed"
            continue
        if not wanted.specifier.contains(installed, prereleases=True):
            yield f"{wanted.name} is {installed}, not {wanted.specifier}"


def unwanted() -> Iterator[str]:
    """Packages that would break the engine when it imports them."""
    for name in BESIDE_TORCH:
        try:
            yield f"{name} {version(name)} is installed and does not load beside torch's CPU build: remove it"
        except PackageNotFoundError:
            continue


def wrong_imports() -> Iterator[str]:
    """Whether torch loads and vLLM finds our plugin."""
    try:
        if find_spec("torch"):  # that it is there is for its pin to say
            import torch  # noqa: F401
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what the user must read
        yield f"torch does not load: {error}"
    for group in ("vllm.platform_plugins", "vllm.general_plugins"):
        if not any(point.value.startswith("toolkit.") for point in entry_points(group=group)):
            yield f"the toolkit's entry point is not in {group}"


def main() -> int:
    """Print what is wrong."""
    engine, *files = sys.argv[1:]
    own = v100.wrong(Path(sysconfig.get_path("purelib"))) if engine == "v100" else unwanted()
    wrong = [*wrong_versions(files), *wrong_imports(), *own]
    sys.stdout.write("".join(f"{line}\n" for line in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
