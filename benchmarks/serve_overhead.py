"""What serve adds to the engine's own start: the same command line, bare (behind the warden alone) and served, in turn.

    python benchmarks/serve_overhead.py [+recipe=NAME] [--pairs N]

Predicted: before the start, one interpreter with Hydra (0.3 to 0.5 s); after it, one /health poll (0.05 s at most) and
the check of the answer; so under 1 s, and under 2 % of a start of 30 s. Absolute times depend on the machine; the
ratios of one run are what to quote.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from guarded import guarded, stop_with_parent

BEFORE = ("interpreter and imports", "planning", "fetching the checkpoint", "looking for leftovers")
AFTER = ("waiting for the first answer", "stopping")


def main() -> None:
    """Print one line a pair, then the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", nargs="?", default="+recipe=smollm2_cpu")
    parser.add_argument("--pairs", type=int, default=2)
    arguments = parser.parse_args()
    print("seconds: bare start, served start, ratio, before, after, added, share of the bare start")
    rows = [pair(arguments.recipe) for _ in range(arguments.pairs)]
    print(f"median added {statistics.median(row['added'] for row in rows):.2f} s,", end=" ")
    print(f"{statistics.median(row['share'] for row in rows):.1%} of the engine's own start")


def pair(recipe: str) -> dict[str, float]:
    """One bare start and one by serve."""
    bare, stopped = bare_start(recipe)
    seconds, wall = served(recipe)
    before = sum(seconds.get(name, 0.0) for name in BEFORE)
    start = sum(value for name, value in seconds.items() if name not in (*BEFORE, *AFTER))
    answer, stop = seconds["waiting for the first answer"], seconds["stopping"]
    after = wall - before - start - answer - stop + max(0.0, stop - stopped)
    added = before + after
    print(f"{bare:11.2f} {start:13.2f} {start / bare:6.3f} {before:7.2f} {after:6.2f} {added:6.2f} {added / bare:6.1%}")
    return {"added": added, "share": added / bare}


def bare_start(recipe: str) -> tuple[float, float]:
    """Seconds until the bare engine is healthy, and seconds that it takes to end after SIGTERM."""
    plan = json.loads(toolkit("plan", recipe, f"server.port={free_port()}"))
    inherited = {name: os.environ[name] for name in plan["inherit"] if name in os.environ}
    began = time.monotonic()
    with guarded(plan["argv"], {**inherited, **plan["env"]}) as engine:
        while not healthy(f"http://{plan['server']['host']}:{plan['server']['port']}/health"):
            code = engine.code()
            if code is not None:
                sys.exit(f"the bare engine ended with {code}")
            time.sleep(0.05)
        ready = time.monotonic()
        engine.process.terminate()
        engine.wait()
        return ready - began, time.monotonic() - ready


def served(recipe: str) -> tuple[dict[str, float], float]:
    """Seconds by phase from the receipt, and serve's whole wall time."""
    began = time.monotonic()
    document: dict[str, Any] = json.loads(toolkit("serve", recipe, f"server.port={free_port()}", "until=answered"))
    wall = time.monotonic() - began
    return json.loads(Path(document["receipt"]).read_text(encoding="utf-8"))["timings"], wall


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def toolkit(verb: str, *arguments: str) -> str:
    """A verb's JSON document."""
    command = [sys.executable, "-m", f"toolkit.{verb}", *arguments, "output=json"]
    return subprocess.run(
        command,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=stop_with_parent,
    ).stdout


def healthy(url: str) -> bool:
    """Whether the engine answers."""
    try:
        with urllib.request.urlopen(url, timeout=1):  # noqa: S310 (our own server)
            return True
    except (urllib.error.URLError, OSError):
        return False


if __name__ == "__main__":
    main()
