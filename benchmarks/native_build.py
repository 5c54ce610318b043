"""How long a build takes, whether two give the same bytes, and the time of one operator call.

usage: python benchmarks/native_build.py [--jobs N] [--json FILE]

Wall time is what a user waits for; CPU time (user and system, all processes) is what the work costs, whatever else the
machine does, up to what cores that share their units take from each other; the load stands beside both. The device
compiler is fetched beforehand. The calls alone: benchmarks/native_calls.py.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from native_calls import calls_us

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from toolkit.native.build import build_wheel
from toolkit.native.check import check_wheel
from toolkit.native.toolchain import find

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / "build"
_SOURCES = ("kernels", "toolkit", "conf", "recipes", "model_views", "pyproject.toml", "README.md", "LICENSE")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Step:
    """What was done, its seconds, and the machine's load (one-minute average, all programs) as it ended."""

    name: str
    wall: float
    cpu: float
    load: float


def cpu() -> float:
    """Seconds of CPU time of this process and of those that it started and waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(item.ru_utime + item.ru_stime for item in used)


def timed(name: str, steps: list[Step], work: Callable[[], Result]) -> Result:
    """Do the work; print and keep how long it took."""
    wall, before = time.monotonic(), cpu()
    result = work()
    step = Step(name, time.monotonic() - wall, cpu() - before, os.getloadavg()[0])
    steps.append(step)
    print(f"{name:32} {step.wall:6.1f} s  CPU {step.cpu:6.1f} s  load {step.load:4.1f}", flush=True)
    return result


def copy_of_sources(folder: Path) -> Path:
    """The sources alone, without compiled objects and without git."""
    folder.mkdir()
    for name in _SOURCES:
        source = ROOT / name
        if source.is_dir():
            ignore = shutil.ignore_patterns("__pycache__", "*.so")
            shutil.copytree(source, folder / name, symlinks=True, ignore=ignore)
        else:
            shutil.copy2(source, folder / name)
    return folder


def changed(root: Path, kernel: str) -> None:
    """Append a comment to a kernel file."""
    path = root / "kernels" / "cuda" / kernel
    path.write_text(path.read_text("utf-8") + "// changed\n", encoding="utf-8")


def builds(jobs: int) -> tuple[list[Step], bool]:
    """Time a cold build, the checks, builds after changes, and a cold build elsewhere (the same bytes?)."""
    steps: list[Step] = []

    def build(root: Path) -> Path:
        return build_wheel(root, root / "dist", cache=CACHE, jobs=jobs)

    find(ROOT, CACHE)  # fetches the device compiler where it is missing
    with tempfile.TemporaryDirectory() as folder:
        first = copy_of_sources(Path(folder) / "a")
        second = copy_of_sources(Path(folder) / "somewhere-else")
        built = timed("cold", steps, lambda: build(first))
        wheel = built.read_bytes()
        timed("the checks", steps, lambda: check_wheel(built))
        timed("nothing changed", steps, lambda: build(first))
        for kernel in ("merge.cu", "kv_cache.cu"):
            changed(first, kernel)
            timed(f"{kernel} changed, with checks", steps, lambda: check_wheel(build(first)))
        same = timed("cold, another folder", steps, lambda: build(second)).read_bytes() == wheel
    print("two builds: the same bytes" if same else "two builds: OTHER BYTES")
    return steps, same


def main() -> int:
    """Run both, and write JSON where asked; 1 where two builds differ."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    steps, same = builds(args.jobs)
    calls = calls_us()
    if args.json:
        machine = {"cores": len(os.sched_getaffinity(0)), "python": platform.python_version()}
        seconds = [
            {name: value if name == "name" else round(value, 1) for name, value in asdict(step).items()}
            for step in steps
        ]
        record = {"machine": machine, "seconds": seconds, "same_bytes": same}
        record["call_us"] = {name: round(value, 2) for name, value in calls.items()}
        args.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
