"""Time to compose a configuration and plan with it, warm and cold, for a checkpoint of 419 files.

    python benchmarks/compose_and_plan.py [--rounds 15]

Each round starts a bare interpreter and the verb in turn, so that a busy machine weighs on both; medians of processor
time are printed, in milliseconds and as multiples of `python -c pass`. Warm: every file read before. Cold: no compiled
Python (a fresh PYTHONPYCACHEPREFIX), and the checkpoint's files dropped from the page cache.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from tempfile import TemporaryDirectory

import yaml
from materialize import GB, sparse_checkpoint

ROOT = Path(__file__).resolve().parents[1]
GOAL_MS = 300
PHASES = ("imports", "composition", "facts", "machine", "plan", "text", "json")

CHILD = """
import json, sys, time
marks = [("start", time.process_time())]
def mark(name): marks.append((name, time.process_time()))
from toolkit import plan
from toolkit.config.composed import checked
from toolkit.config.command_line import read_command_line
from toolkit.config.composition import prepare
from toolkit.config.one_job import compose_once
from toolkit.config.schema.verbs import PlanConfig
from toolkit.config.search_path import shipped_conf
import hydra
mark("imports")
line = read_command_line(sys.argv[1:], shipped_conf())
prepare("plan", PlanConfig)
composed = checked(compose_once("plan", line), PlanConfig)
config = composed.config
mark("composition")
facts = plan.locate(config.checkpoint)
mark("facts")
machine = plan.probe([(config.server.host, config.server.port)])
mark("machine")
made = plan.make_plan(config, composed.recipe, facts, machine)
mark("plan")
from toolkit.streams import say
import io, contextlib
with contextlib.redirect_stdout(io.StringIO()):
    plan.show(made, composed.origins, composed.values)
mark("text")
json.dumps({**made.to_json(), "origins": dict(composed.origins)}, indent=2, default=str)
mark("json")
print(json.dumps({name: 1000 * (end - begin) for (_, begin), (name, end) in zip(marks, marks[1:])}))
"""


def processor_ms(command: list[str], environment: dict[str, str]) -> float:
    """Milliseconds of processor time that a command takes, its start included."""
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=ROOT, env=environment)
    after = getrusage(RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def drop_from_page_cache(folder: Path) -> None:
    """Ask the kernel to forget the files' pages."""
    for path in folder.iterdir():
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def declared_config(recipe: str) -> dict[str, object]:
    """config.json as the recipe declares it."""
    command = [sys.executable, "-m", "toolkit.plan", f"+recipe={recipe}", "--cfg", "job", "-p", "checkpoint.declared"]
    text = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    return dict(yaml.safe_load(text))


def measure(arguments: list[str], rounds: int, checkpoint: Path, *, cold: bool) -> dict[str, float]:
    """Medians over the rounds, by name: `bare`, `whole` (the verb as a user starts it), and each phase."""
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        with TemporaryDirectory() as compiled:
            environment = dict(os.environ) | ({"PYTHONPYCACHEPREFIX": compiled} if cold else {})
            found.setdefault("bare", []).append(processor_ms([sys.executable, "-c", "pass"], environment))
            if cold:
                drop_from_page_cache(checkpoint)
            whole = processor_ms([sys.executable, "-m", "toolkit.plan", *arguments, "output=json"], environment)
            found.setdefault("whole", []).append(whole)
        with TemporaryDirectory() as compiled:
            environment = dict(os.environ) | ({"PYTHONPYCACHEPREFIX": compiled} if cold else {})
            if cold:
                drop_from_page_cache(checkpoint)
            command = [sys.executable, "-c", CHILD, *arguments]
            output = subprocess.run(
                command, check=True, capture_output=True, text=True, cwd=ROOT, env=environment
            ).stdout
            for name, value in json.loads(output).items():
                found.setdefault(name, []).append(value)
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> None:
    """Make the checkpoint, measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    with TemporaryDirectory() as folder:
        checkpoint = sparse_checkpoint(Path(folder) / "checkpoint", 125 * GB)
        (checkpoint / "config.json").write_text(json.dumps(declared_config("dcp2_e4m3")))
        arguments = ["+recipe=dcp2_e4m3", "checkpoint.source.kind=local", f"checkpoint.source.path={checkpoint}"]
        files = len(list(checkpoint.iterdir()))
        subprocess.run([sys.executable, "-m", "toolkit.plan", *arguments], check=True, capture_output=True, cwd=ROOT)
        results = {
            "warm": measure(arguments, rounds, checkpoint, cold=False),
            "cold": measure(arguments, max(3, rounds // 5), checkpoint, cold=True),
        }
    print(f"checkpoint of {files} files, processor time, medians of {rounds} rounds (cold: {max(3, rounds // 5)})\n")
    print(f"{'':<26}{'warm':>10}{'':>9}{'cold':>10}")
    for name in ("bare", "whole", *PHASES):
        label = {"bare": "python -c pass", "whole": "plan output=json, whole"}.get(name, f"  {name}")
        row = "".join(f"{result[name]:8.0f} ms ({result[name] / result['bare']:4.1f}x)" for result in results.values())
        print(f"{label:<26}{row}")
    whole = results["warm"]["whole"]
    print(f"\ngoal: {GOAL_MS} ms warm: {'met' if whole <= GOAL_MS else f'missed by {whole - GOAL_MS:.0f} ms'}")


if __name__ == "__main__":
    main()
