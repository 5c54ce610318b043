"""Run the GPU checks under compute-sanitizer: python3 tests/gpu/sanitize.py [--tool memcheck racecheck] [--only TEXT].

memcheck finds accesses outside of an allocation and misaligned ones, racecheck hazards in shared memory, synccheck
wrong barriers. Only our kernels are watched. Each tool must first find the fault of a kernel made for it (canary.py),
and then say how many errors it saw in the checks; a run without both counts as failed. Every tensor gets an allocation
of its own, so that no access hides in torch's pool; CUDA graphs cannot be captured then, and are left out, as is what
takes minutes under the tools.

The tool comes with CUDA, or from PyPI: nvidia-cuda-sanitizer-api==13.0.85 for a CUDA 13.0 driver,
nvidia-cuda-sanitizer-api-cu12 for older ones.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
LEFT_OUT = ("graph", "compiled", "many-elements", "weak_ref")
"""weak_ref_tensor launches nothing, and its check of a storage's end does not hold without torch's pool."""
FOUND = 99
SUMMARY = re.compile(r"^=+ (?:ERROR|RACECHECK) SUMMARY: (\d+) .*$", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """What a tool found, and why the run counts as failed (empty: it does not).

    checks: how many ran under it; errors: how many it saw in them, None where it did not say.
    """

    tool: str
    checks: int
    errors: int | None
    seconds: int
    faults: tuple[str, ...]


def sanitizer(given: str | None) -> str:
    """Where compute-sanitizer is: as given, on PATH, or in an installed package."""
    found = given or shutil.which("compute-sanitizer")
    if found:
        return found
    places = ("nvidia/*/compute-sanitizer/compute-sanitizer", "nvidia/*/bin/compute-sanitizer")
    for folder in sys.path:
        for path in (path for place in places for path in Path(folder).glob(place)):
            return str(path)
    fix = "pip install nvidia-cuda-sanitizer-api, or --sanitizer PATH"
    sys.exit(f"error: there is no compute-sanitizer here\n  fix: {fix}")


@dataclass(frozen=True)
class Tool:
    """One of compute-sanitizer's tools, and a folder for what it writes."""

    binary: str
    name: str
    folder: Path

    def watch(self, script: str, *arguments: str) -> tuple[int, str]:
        """Run a script of this folder under the tool: the exit status, and what the tool had to say."""
        log = self.folder / f"{self.name}-{script}.log"
        log.unlink(missing_ok=True)
        command = [self.binary, "--tool", self.name, "--kernel-name", "kns=_sm70", "--error-exitcode", str(FOUND)]
        # Asking the driver whether memory is pinned is an API call that may say no: no error of ours.
        command += ["--print-limit", "20", "--target-processes", "all", "--report-api-errors", "no"]
        command += ["--log-file", str(log), sys.executable, "-X", "faulthandler", str(HERE / script), *arguments]
        environment = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
        code = subprocess.run(command, env=environment, check=False)
        return code.returncode, log.read_text(errors="replace") if log.is_file() else ""

    def finds_its_canary(self) -> bool:
        """Whether it finds the fault that was made for it, where it was made."""
        code, told = self.watch("canary.py", self.name)
        return code == FOUND and f"{self.name}_canary_sm70" in told and (errors_in(told) or 0) > 0

    def check(self, arguments: Sequence[str]) -> Outcome:
        """Run the canary and the checks."""
        started = time.monotonic()
        faults = [] if self.finds_its_canary() else ["it does not find the fault that was made for it"]
        record = self.folder / f"{self.name}.json"
        record.unlink(missing_ok=True)
        code, told = self.watch("run.py", *arguments, "--skip", *LEFT_OUT, "--json", str(record))
        found = json.loads(record.read_text()) if record.is_file() else {"checks": 0, "complete": False, "failures": {}}
        errors = errors_in(told)
        print("".join(f"{line}\n" for line in told.splitlines()[:200] if errors != 0), end="")
        faults += [f"{name} fails" for name in found["failures"]]
        faults += [] if found["complete"] and found["checks"] else ["the checks did not come to their end"]
        faults += (
            ["it does not say how many errors it saw"] if errors is None else [f"{errors} errors"] if errors else []
        )
        faults += [f"exit status {code}"] if code and not faults else []
        return Outcome(self.name, found["checks"], errors, round(time.monotonic() - started), tuple(faults))


def errors_in(told: str) -> int | None:
    """How many errors a tool's summaries count, None without any: one comes from each process that used a GPU."""
    counts = [int(count) for count in SUMMARY.findall(told)]
    return sum(counts) if counts else None


def main() -> int:
    """Run every tool; 1 where one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", nargs="+", default=["memcheck", "racecheck", "synccheck"])
    parser.add_argument("--only", default="", help="text in the names of the checks")
    parser.add_argument("--part", default="1/1", help="I/N: every Nth check, from the Ith on")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31))
    parser.add_argument("--sanitizer", help="path of compute-sanitizer")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    binary, outcomes = sanitizer(args.sanitizer), []
    with tempfile.TemporaryDirectory() as folder:
        for name in args.tool:
            arguments = ["--seed", str(args.seed), "--only", args.only, "--part", args.part]
            outcome = Tool(binary, name, Path(folder)).check(arguments)
            told = "; ".join(outcome.faults) or "its canary found, and nothing else"
            print(f"{name}: {outcome.checks} checks in {outcome.seconds} s: {told} (seed {args.seed})", flush=True)
            outcomes.append(outcome)
            if args.json:
                record = {"seed": args.seed, "part": args.part, "tools": [asdict(each) for each in outcomes]}
                args.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 1 if any(outcome.faults for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
