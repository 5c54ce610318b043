"""Run the GPU checks under compute-sanitizer: python3 tests/gpu/sanitize.py [--tool memcheck racecheck] [--only TEXT].

memcheck finds accesses outside of an allocation and misaligned ones, racecheck hazards in shared memory, synccheck
wrong barriers. Only our kernels are watched. Each tool must first find the fault of a kernel made for it (canary.py),
and then say how many errors it saw in the checks; a run without both counts as failed. Every tensor gets an allocation
of its own, so that no access hides in torch's pool; CUDA graphs cannot be captured then, and are left out, as is what
takes minutes under the tools. `--jobs` processes share a tool's checks: the tools keep a processor busy, not the GPU.

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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LEFT_OUT = ("graph", "compiled", "many-elements", "weak_ref")
"""weak_ref_tensor launches nothing, and its check of a storage's end does not hold without torch's pool."""
FOUND = 99
MACHINE = ("gpu", "capability", "driver", "torch", "python", "commit", "dirty", "library_sha256", "kernels_sha256")
"""What the record takes over from those of the checks, with the digests of the device code."""
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


@dataclass(frozen=True)
class Share:
    """What one process's share of the checks came to: the tool's words on it, and the checks' own record."""

    code: int
    told: str
    record: dict[str, Any]

    @property
    def errors(self) -> int | None:
        """How many errors the tool's summaries count, None without any: one comes from each process on the GPU."""
        counts = [int(count) for count in SUMMARY.findall(self.told)]
        return sum(counts) if counts else None

    def faults(self) -> list[str]:
        """Why it counts as failed."""
        faults = [f"{name} fails" for name in self.record["failures"]]
        if not (self.record["complete"] and self.record["checks"]):
            faults.append("the checks did not come to their end")
        if self.errors is None:
            faults.append("it does not say how many errors it saw")
        elif self.errors:
            faults.append(f"{self.errors} errors")
        return faults + ([f"exit status {self.code}"] if self.code and not faults else [])


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

    def watch(self, name: str, script: str, *arguments: str) -> tuple[int, str]:
        """Run a script of this folder under the tool: the exit status, and what the tool had to say."""
        log = self.folder / f"{self.name}-{name}.log"
        command = [self.binary, "--tool", self.name, "--kernel-name", "kns=_sm70", "--error-exitcode", str(FOUND)]
        # Asking the driver whether memory is pinned is an API call that may say no: no error of ours.
        command += ["--print-limit", "20", "--target-processes", "all", "--report-api-errors", "no"]
        command += ["--log-file", str(log), sys.executable, "-X", "faulthandler", str(HERE / script), *arguments]
        environment = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
        code = subprocess.run(command, env=environment, check=False)
        return code.returncode, log.read_text(errors="replace") if log.is_file() else ""

    def finds_its_canary(self) -> bool:
        """Whether it finds the fault that was made for it, where it was made."""
        share = Share(*self.watch("canary", "canary.py", self.name), {})
        return share.code == FOUND and f"{self.name}_canary_sm70" in share.told and (share.errors or 0) > 0

    def share(self, part: str, seed: int, only: str) -> Share:
        """Run a part of the checks."""
        name = part.replace("/", "of")
        record = self.folder / f"{self.name}-{name}.json"
        arguments = ["--seed", str(seed), "--only", only, "--part", part, "--skip", *LEFT_OUT, "--json", str(record)]
        code, told = self.watch(name, "run.py", *arguments)
        nothing = {"checks": 0, "complete": False, "failures": {}}
        return Share(code, told, json.loads(record.read_text()) if record.is_file() else nothing)

    def check(self, seed: int, only: str, jobs: int) -> tuple[Outcome, dict[str, Any]]:
        """Run the canary and the checks: what came of them, and the machine and library that ran them."""
        started = time.monotonic()
        faults = [] if self.finds_its_canary() else ["it does not find the fault that was made for it"]
        parts = [f"{part}/{jobs}" for part in range(1, jobs + 1)]
        with ThreadPoolExecutor(jobs) as pool:
            shares = list(pool.map(lambda part: self.share(part, seed, only), parts))
        for share in shares:
            print("".join(f"{line}\n" for line in share.told.splitlines()[:200] if share.errors != 0), end="")
            faults += share.faults()
        counts = [share.errors for share in shares if share.errors is not None]
        errors = sum(counts) if len(counts) == jobs else None
        checks = sum(share.record["checks"] for share in shares)
        machine = {name: shares[0].record.get(name) for name in (*MACHINE, "device_code")}
        return Outcome(self.name, checks, errors, round(time.monotonic() - started), tuple(faults)), machine


def version(binary: str) -> str:
    """What the sanitizer calls itself."""
    told = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"^Version (\S+)", told, re.MULTILINE)
    return found[1] if found else "unknown"


def main() -> int:
    """Run every tool; 1 where one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", nargs="+", default=["memcheck", "racecheck", "synccheck"])
    parser.add_argument("--only", default="", help="text in the names of the checks")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the checks")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31))
    parser.add_argument("--sanitizer", help="path of compute-sanitizer")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    binary, outcomes = sanitizer(args.sanitizer), []
    with tempfile.TemporaryDirectory() as folder:
        for name in args.tool:
            outcome, machine = Tool(binary, name, Path(folder)).check(args.seed, args.only, args.jobs)
            told = "; ".join(outcome.faults) or "its canary found, and nothing else"
            print(f"{name}: {outcome.checks} checks in {outcome.seconds} s: {told} (seed {args.seed})", flush=True)
            outcomes.append(outcome)
            if args.json:
                record = {**machine, "sanitizer": version(binary), "seed": args.seed, "only": args.only}
                record |= {"left_out": LEFT_OUT, "tools": [asdict(each) for each in outcomes]}
                args.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 1 if any(outcome.faults for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
