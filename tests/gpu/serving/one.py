"""Serve one case, judge it and write its record: python -m tests.gpu.serving.one NAME FILE (prove.py starts it)."""

import argparse
import json
import re
import signal
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

from tests.gpu.serving import judge, smollm2, speed
from tests.gpu.serving.cases import CASES
from tests.gpu.serving.checks import EXTRA
from tests.gpu.serving.server import Served, refusal

MEMORY = {
    "weights": r"Model loading took ([\d.]+) GiB",
    "graphs": r"Graph capturing finished in \d+ secs, took (-?[\d.]+) GiB",
    "free_at_first": r"Initial free memory ([\d.]+) GiB",
    "left_for_the_cache": r"Available KV cache memory: (-?[\d.]+) GiB",
}


@dataclass(frozen=True)
class Place:
    """Where a case runs: folders of checkpoints and logs, its own port, and its share of each GPU's memory."""

    models: Path
    logs: Path
    port: int
    share: float


def run(case, place):
    """One case's record: what was served and seen; `fault` where something is wrong."""
    record = {"case": case.name}
    try:
        if case.against == "refused":
            record |= refused(case, place)
        elif case.against == "stock":
            record |= speed.beside_stock(case, place)
        else:
            record |= served(case, place)
    except Exception as error:  # noqa: BLE001 - every fault goes into the record
        record["fault"] = f"{type(error).__name__}: {error}"[-1500:]
        traceback.print_exc()
    return record


def served(case, place):
    """What one server answered, how it was checked, and what its receipt says."""
    record = {}
    with Served(case, place) as server:
        record["ready_s"] = round(server.seconds, 1)
        client = server.client
        answers = [] if case.against == "cpu" else judge.ask(client, case)
        found = smollm2.against_record(client) if case.against == "cpu" else {}
        record["checks"] = {name: EXTRA[name](client) for name in case.checks}
    record["memory_gib"] = memory(Path(server.document["log"]).read_text(errors="replace"))
    record |= summary(server.receipt) | {"exit_code": server.exit_code}
    return record | (found or judge.judged(case, answers, place.models))


def refused(case, place):
    """The rules that refuse a case; a fault where one that must is not among them."""
    rules = refusal(case, place)
    missing = sorted(set(case.checks) - set(rules))
    return {"refused_by": rules, **({"fault": f"not refused by {', '.join(missing)}"} if missing else {})}


def summary(receipt):
    """What the workers report, without what is the same for all."""
    runtime = receipt["workers"][0]["runtime"]
    layers = receipt["workers"][0]["layers"]
    return {
        "workers": len(receipt["workers"]),
        "platform": runtime["platform"],
        "operators": runtime["operators"],
        "triton_kernels": runtime["triton_kernels"],
        "native_libraries": [Path(path).name for path in runtime["native_libraries"]],
        "compilation": runtime["compilation"],
        "graphs": runtime["graphs"],
        "attention": sorted({layer["backend"] for layer in layers}),
        "recurrent": sorted({what for _, what in runtime["recurrent"]}),
        "capacity": receipt.get("capacity"),
        "timings": rounded(receipt["timings"]),
    }


def memory(log):
    """GiB that vLLM's workers say they took, one number for each that differs."""
    found = {what: sorted({float(gib) for gib in re.findall(line, log)}) for what, line in MEMORY.items()}
    return {what: gib for what, gib in found.items() if gib}


def rounded(timings):
    """Seconds with one digit behind the point."""
    return {phase: round(seconds, 1) for phase, seconds in timings.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("file", type=Path)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--logs", type=Path, required=True)
    parser.add_argument("--port", type=int, default=8100)
    parser.add_argument("--share", type=float, default=0.9)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(f"{args.name}: stopped"))  # so that its server is stopped too
    case = next(case for case in CASES if case.name == args.name)
    record = run(case, Place(args.models, args.logs, args.port, args.share))
    args.file.write_text(json.dumps(record), encoding="utf-8")
    return 1 if "fault" in record else 0


if __name__ == "__main__":
    sys.exit(main())
