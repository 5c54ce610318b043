"""How long a build takes, whether two give the same bytes, and the CPU time of one operator call.

usage: python benchmarks/native_build.py [--jobs N]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import timeit
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from toolkit.native import load
from toolkit.native.build import build_wheel

ROOT = Path(__file__).resolve().parents[1]
_SOURCES = ("kernels", "toolkit", "conf", "recipes", "pyproject.toml", "README.md", "LICENSE")


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


def timed(root: Path, jobs: int) -> tuple[float, bytes]:
    """Seconds of a build and the wheel's bytes."""
    started = time.monotonic()
    wheel = build_wheel(root, root / "dist", cache=ROOT / "build", jobs=jobs)
    return time.monotonic() - started, wheel.read_bytes()


def builds(jobs: int) -> None:
    """Print the build times and compare two wheels."""
    with tempfile.TemporaryDirectory() as folder:
        first = copy_of_sources(Path(folder) / "a")
        second = copy_of_sources(Path(folder) / "somewhere-else")
        cold, wheel = timed(first, jobs)
        print(f"cold                  {cold:6.1f} s  {len(wheel)} bytes")
        print(f"nothing changed       {timed(first, jobs)[0]:6.1f} s")
        kernel = first / "kernels" / "cuda" / "merge.cu"
        kernel.write_text(kernel.read_text("utf-8") + "// changed\n", encoding="utf-8")
        print(f"one kernel changed    {timed(first, jobs)[0]:6.1f} s")
        again, other = timed(second, jobs)
        print(f"cold, another folder  {again:6.1f} s  {'the same bytes' if other == wheel else 'OTHER BYTES'}")


def overhead() -> None:
    """Print the CPU time of one call on tiny CPU tensors, where the work is nothing."""
    import torch

    load()
    x, weight = torch.randn(1, 8).half(), torch.randn(8).half()
    result, call = torch.empty_like(x), torch.ops.volta.rms_norm.default
    times = timeit.repeat(lambda: call(result, x, weight, 1e-6), number=5000, repeat=7)
    print(f"one call              {min(times) / 5000 * 1e6:6.2f} us")


def main() -> int:
    """Run both."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=0)
    args = parser.parse_args()
    builds(args.jobs)
    overhead()
    return 0


if __name__ == "__main__":
    sys.exit(main())
