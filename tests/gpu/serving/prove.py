"""Serve cases on this machine's GPU and write the evidence: python -m tests.gpu.serving.prove --json FILE.

Needs vLLM 0.32.0's sources, torch with CUDA, the built native library, and a GPU of capability 7.0 or newer. Each case
has a process and a port of its own, and its servers are started by `python -m toolkit.serve`. FILE is written after
each case; cases that it holds already stay. Without --only: every case that one GPU serves, but not `beside-stock`.
"""

import argparse
import json
import queue
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.gpu.serving import smollm2
from tests.gpu.serving.cases import CASES
from tests.gpu.serving.record import Record

SHOWN = ("case", "ready_s", "reference", "cpu_engine", "checks", "ratio", "tokens_equal", "refused_by", "fault")
DEFAULT = ("families", "smollm2")
WHOLE = 0.9
"""Share of a GPU's memory that is dealt out to the servers that run at once."""
CASE_S = 1200
PORT = 8100


def parsed(words=None):
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="the record; kept and added to")
    parser.add_argument("--models", type=Path, default=Path(tempfile.gettempdir()) / "models")
    parser.add_argument("--logs", type=Path, default=Path(tempfile.gettempdir()) / "logs")
    parser.add_argument("--only", default="", help="names of cases or parts of them, with commas between")
    parser.add_argument("--without", default="", help="likewise: cases that are left out")
    parser.add_argument("--missing", action="store_true", help="only what the record lacks or has as a fault")
    parser.add_argument("--jobs", type=int, default=1, help="servers at once, each with its share of the GPU's memory")
    parser.add_argument("--smollm2", type=Path, help="SmolLM2's GGUF file, or its converted folder")
    parser.add_argument("--list", action="store_true", help="print the cases that would run, and end")
    args = parser.parse_args(words)
    if args.jobs < 1:
        parser.error(f"--jobs={args.jobs}: at least one server runs at a time")
    return args


def wanted(args, record):
    """The cases to run."""
    cases = [case for case in CASES if chosen(case, args.only, args.without)]
    if args.smollm2 is None:
        cases = [case for case in cases if case.suite != "smollm2"]
    return [case for case in cases if not args.missing or record.lacks(case.name)]


def chosen(case, only, without):
    """Whether a case is run: it has one of the wanted parts in its name, and none of the others."""
    parts, others = ([part for part in text.split(",") if part] for text in (only, without))
    if not parts:
        taken = case.suite in DEFAULT
    else:  # the cases of other suites only by the suite's name, as theirs hold those of the families
        taken = any(part in case.name and (case.suite in DEFAULT or case.suite in part) for part in parts)
    return taken and not any(part in case.name for part in others)


def run(case, port, args):
    """One case's record, from a process of its own; whatever becomes of that process."""
    file, log = args.logs / f"{case.name}.json", args.logs / f"{case.name}.log"
    file.unlink(missing_ok=True)
    words = [case.name, str(file), "--models", str(args.models), "--logs", str(args.logs)]
    words += ["--port", str(port), "--share", f"{WHOLE / args.jobs:.3f}"]
    begun = time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-m", "tests.gpu.serving.one", *words], stdout=out, stderr=out)
        try:
            process.wait(CASE_S)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait()
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        said = log.read_text(errors="replace")[-1500:]
        record = {"case": case.name, "fault": f"its process ended with {process.returncode}: {said}"}
    return {**record, "seconds": round(time.monotonic() - begun, 1)}


def main():
    args = parsed()
    record = Record(args.json, [case.name for case in CASES])
    cases = wanted(args, record)
    if args.list:
        print("\n".join(case.name for case in cases))
        return 0
    for folder in (args.logs, args.models):
        folder.mkdir(parents=True, exist_ok=True)
    make_models(cases, args)
    ports = queue.SimpleQueue()
    for slot in range(args.jobs):
        ports.put(PORT + slot)

    def on_a_free_port(case):
        port = ports.get()
        try:
            return run(case, port, args)
        finally:
            ports.put(port)

    faults = []
    with ThreadPoolExecutor(args.jobs) as pool:
        for done in map_as_they_end(pool, on_a_free_port, cases):
            record.add(done)
            print(json.dumps({name: done[name] for name in SHOWN if name in done}), flush=True)
            faults += [done["case"]] if "fault" in done else []
    print(f"{len(cases) - len(faults)} of {len(cases)} cases served as they must; faults: {faults or 'none'}")
    return 1 if faults else 0


def map_as_they_end(pool, function, values):
    """Results in the order in which they come."""
    from concurrent.futures import as_completed

    for future in as_completed([pool.submit(function, value) for value in values]):
        yield future.result()


def make_models(cases, args):
    """The checkpoints of all cases, before any is served."""
    from tests.gpu.serving.models import make

    if any(case.suite == "smollm2" for case in cases):
        smollm2.materialized(args.smollm2, args.models)
    for name in dict.fromkeys(name for case in cases for name in case.folders):
        if name != "smollm2":
            make(args.models, name)


if __name__ == "__main__":
    sys.exit(main())
