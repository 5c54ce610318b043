"""All that this checkout can show on a GPU, into one folder: python3 tests/gpu/evidence.py FOLDER [--sanitizer PATH].

It needs Python, torch, a driver and build/native/volta_native.so. Each step prints as it goes, and writes its JSON as
it goes, too; a step that fails does not keep the next ones from running. `--steps` takes some of them, and `--jobs` is
how many processes share the checks under compute-sanitizer, which take minutes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STEPS = ("calls", "checks", "bandwidth", "sanitize")


def command(step: str, args: argparse.Namespace) -> list[str]:
    """The program of a step, and its arguments."""
    sanitizer = ["--sanitizer", args.sanitizer] if args.sanitizer else []
    programs = {
        "calls": ["benchmarks/native_calls.py"],
        "checks": ["tests/gpu/run.py"],
        "bandwidth": ["benchmarks/native_operators.py"],
        "sanitize": ["tests/gpu/sanitize.py", "--tool", *args.tool, "--jobs", args.jobs, *sanitizer],
    }
    return [sys.executable, "-u", *programs[step], "--json", str(args.folder.resolve() / f"{step}.json")]


def main() -> int:
    """Run the steps; 1 where one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--tool", nargs="+", default=["memcheck", "racecheck"])
    parser.add_argument("--jobs", default="4")
    parser.add_argument("--sanitizer", help="path of compute-sanitizer")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    failed = []
    for step in args.steps:
        started = time.monotonic()
        print(f"== {step}", flush=True)
        code = subprocess.run(command(step, args), cwd=ROOT, check=False).returncode
        print(f"== {step}: exit status {code}, {time.monotonic() - started:.0f} s", flush=True)
        failed += [step] if code else []
    print(f"failed: {', '.join(failed)}" if failed else "every step passed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
