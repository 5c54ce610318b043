"""Run the GPU checks under compute-sanitizer: python3 tests/gpu/sanitize.py [--tool memcheck racecheck] [--only TEXT].

memcheck finds accesses outside of an allocation and misaligned ones, racecheck hazards in shared memory, synccheck
wrong barriers. Only our kernels are watched. Every tensor gets an allocation of its own, so that no access hides in
torch's pool; CUDA graphs cannot be captured then, and are left out, as is what takes minutes under the tools.

The tool comes with CUDA, or from PyPI: nvidia-cuda-sanitizer-api==13.0.85 for a CUDA 13.0 driver,
nvidia-cuda-sanitizer-api-cu12 for older ones.
"""

import argparse
import os
import secrets
import shutil
import site
import subprocess
import sys
from pathlib import Path

RUN = Path(__file__).with_name("run.py")
LEFT_OUT = ("graph", "compiled", "many-elements")
FOUND = 99


def sanitizer(given):
    """Where compute-sanitizer is: as given, on PATH, or in an installed package."""
    if given or shutil.which("compute-sanitizer"):
        return given or shutil.which("compute-sanitizer")
    places = ("nvidia/*/compute-sanitizer/compute-sanitizer", "nvidia/*/bin/compute-sanitizer")
    for folder in site.getsitepackages():
        for path in (path for place in places for path in Path(folder).glob(place)):
            return str(path)
    fix = "pip install nvidia-cuda-sanitizer-api, or --sanitizer PATH"
    return sys.exit(f"error: there is no compute-sanitizer here\n  fix: {fix}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", nargs="+", default=["memcheck", "racecheck", "synccheck"])
    parser.add_argument("--only", default="", help="text in the names of the checks")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31))
    parser.add_argument("--sanitizer", help="path of compute-sanitizer")
    args = parser.parse_args()
    binary, worst = sanitizer(args.sanitizer), 0
    for tool in args.tool:
        command = [binary, "--tool", tool, "--kernel-name", "kns=_sm70", "--error-exitcode", str(FOUND)]
        # Asking the driver whether memory is pinned is an API call that may say no: no error of ours.
        command += ["--print-limit", "20", "--target-processes", "all", "--report-api-errors", "no"]
        command += [sys.executable, "-X", "faulthandler", str(RUN)]
        command += ["--seed", str(args.seed), "--only", args.only, "--skip", *LEFT_OUT]
        code = subprocess.run(command, env=os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, check=False).returncode
        told = {0: "nothing found", FOUND: "hazards found"}.get(code, f"the checks ended with {code}")
        print(f"{tool}: {told} (seed {args.seed})", flush=True)
        worst = max(worst, code)
    return worst


if __name__ == "__main__":
    sys.exit(main())
