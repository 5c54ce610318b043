"""Run the GPU checks without pytest and write the record: python3 tests/gpu/run.py [--seed N] [--json FILE].

It needs Python, torch, a driver, and build/native/volta_native.so of this checkout, and tells how far it is every few
seconds; the record says `complete` once all is done, and holds what was done before if the run is cut short.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import re
import secrets
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from kernels.checks import alias, graphs
from kernels.checks.compare import Deviation
from kernels.checks.suite import cases
from toolkit.native import info, load

Check = Callable[[], Deviation | None]
SECONDS_BETWEEN_LINES = 10


def checks(seed: int) -> Iterator[tuple[str, Check]]:
    """Name and function of every check; the graph goes first, so that its capture loads the code."""
    yield "graph-replay", partial(graphs.replayed_graph, seed)
    yield "sampled-graph", partial(graphs.sampled_graph, seed)
    yield "side-stream", partial(graphs.side_stream, seed)
    yield "compiled", partial(graphs.compiled, seed)
    yield "many-elements", graphs.many_elements
    yield "mixed-devices", graphs.mixed_devices
    for view in alias.CUDA_VIEWS:
        yield view.__name__.replace("_", "-"), partial(view, seed)
    yield "cuda-view-refuses-cuda", alias.cuda_view_refuses_cuda
    for case in cases():
        yield case.name, partial(case.run, "cuda", seed)


def chosen(every: Iterable[tuple[str, Check]], only: str, skip: Iterable[str], part: str) -> list[tuple[str, Check]]:
    """The checks with `only` and none of `skip` in their names; `2/3` is the second third of these, every third one."""
    named = [(name, check) for name, check in every if only in name and not any(text in name for text in skip)]
    number, parts = map(int, part.split("/"))
    return named[number - 1 :: parts]


def execute(
    named: Iterable[tuple[str, Check]], synchronize: Callable[[], None], keep: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Run the checks; `keep` gets what is known so far, every few seconds and at the end."""
    named = list(named)
    results: dict[str, Any] = {}
    failures: dict[str, str] = {}

    def found() -> dict[str, Any]:
        done = len(results) + len(failures)
        return {
            "complete": done == len(named),
            "checks": done,
            "failures": failures,
            "worst_error_and_share_exact": results,
        }

    told = time.monotonic()
    for name, check in named:
        try:
            deviation = check()
            synchronize()
            results[name] = None if deviation is None else [round(deviation.worst, 4), round(deviation.exact, 6)]
        except Exception as error:  # noqa: BLE001 - every failure goes into the record
            failures[name] = str(error) or repr(error)
            traceback.print_exc()
        if time.monotonic() - told > SECONDS_BETWEEN_LINES:
            told = time.monotonic()
            print(
                f"  {len(results) + len(failures)} of {len(named)} checks, {len(failures)} failed: {name}", flush=True
            )
            keep(found())
    keep(found())
    return found()


def machine() -> dict[str, Any]:
    """What the checks run on: GPU, driver, torch, and the library down to its bytes. It must be this process's."""
    library, native = load(), info()
    driver = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return {
        "gpu": torch.cuda.get_device_name(),
        "capability": list(torch.cuda.get_device_capability()),
        "driver": subprocess.run(driver, capture_output=True, text=True, check=True).stdout.split()[0],
        "torch": torch.__version__,
        "python": platform.python_version(),
        "commit": native.commit,
        "dirty": native.dirty,
        "library_sha256": hashlib.sha256(library.read_bytes()).hexdigest(),
        "kernels_sha256": native.kernels_sha256,
        "device_code": {f"{code.name}.{code.kind}": code.sha256 for code in native.device_code},
    }


def as_text(record: dict[str, Any]) -> str:
    """JSON with one line for each check."""
    return re.sub(r"\[\s+([\d.e+-]+),\s+([\d.e+-]+)\s+\]", r"[\1, \2]", json.dumps(record, indent=1)) + "\n"


def main() -> int:
    """Run what is asked for; 1 where a check failed or none was run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="", help="text in the names of the checks to run")
    parser.add_argument("--skip", nargs="*", default=[], help="texts in the names of checks to leave out")
    parser.add_argument("--part", default="1/1", help="I/N: every Nth check, from the Ith on")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("error: torch sees no NVIDIA GPU here", file=sys.stderr)
        return 5
    facts, started = machine(), time.monotonic()
    print(f"{facts['gpu']}, driver {facts['driver']}, torch {facts['torch']}, seed {args.seed}", flush=True)

    def keep(found: dict[str, Any]) -> None:
        if args.json:
            record = {**facts, "seed": args.seed, "seconds": round(time.monotonic() - started), **found}
            args.json.write_text(as_text(record), encoding="utf-8")

    found = execute(chosen(checks(args.seed), args.only, args.skip, args.part), torch.cuda.synchronize, keep)
    passed, failed = found["checks"] - len(found["failures"]), len(found["failures"])
    seconds = time.monotonic() - started
    print(f"{passed} checks passed, {failed} failed, seed {args.seed}, {seconds:.0f} s, {facts['gpu']}", flush=True)
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
