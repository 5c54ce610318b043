"""Planning time and memory against a checkpoint's shards, tensors and layers.

    python benchmarks/planning.py [--rounds 9]

What is timed is the toolkit's own work after imports and composition: reading the checkpoint's facts, making the plan,
and its JSON; medians of processor time over the rounds, each size in a process of its own. Checkpoints are sparse
files, as large as real ones. `read` are the bytes that the process took from files, `headers` those that headers,
index and config.json have (weights are never read), and `memory` is what the work adds to the process's peak.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from materialize import GB, sparse_shard

ROOT = Path(__file__).resolve().parents[1]
GOAL_SHARDS, GOAL_MS = 419, 100
SHARDS = (1, 10, 50, 100, 200, 419, 1000, 2000)
TENSORS = (1, 20, 100, 700)
LAYERS = (4, 16, 64, 256, 1024)
SHARD_BYTES = GB // 3  # of Qwen3.8-Flash-Next in NVFP4: 125 GB in 414 shards

CHILD = """
import json, sys, time, resource, statistics
from pathlib import Path
from toolkit.checkpoint.local import read_facts
from toolkit.config.schema.engine import EngineName
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.machine.probe import probe
from toolkit.planning.make import make_plan
folder, rounds = Path(sys.argv[1]), int(sys.argv[2])
config = DeploymentConfig()
config.checkpoint.name = "sparse"
config.engine.name, config.limits.tensor_parallel = EngineName.v100, 4
machine = probe([("127.0.0.1", 1)])

def taken():
    return int(Path("/proc/self/io").read_text().split()[1])

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

found = {"facts": [], "plan": [], "json": []}
before, memory = taken(), peak()
for number in range(rounds):
    marks = [time.process_time()]
    facts = read_facts(folder, "sparse"); marks.append(time.process_time())
    made = make_plan(config, "", facts, machine); marks.append(time.process_time())
    json.dumps(made.to_json()); marks.append(time.process_time())
    for name, begin, end in zip(found, marks, marks[1:]):
        found[name].append(1000 * (end - begin))
    if number == 0:
        read, memory = taken() - before, peak() - memory
assert made.capacity is not None and made.budget.terms
print(json.dumps({name: statistics.median(times) for name, times in found.items()} | {"read": read, "memory": memory}))
"""


@dataclass(frozen=True)
class Size:
    """One checkpoint."""

    shards: int
    tensors: int
    """Tensors of one shard."""
    layers: int


def model(layers: int) -> dict[str, object]:
    """A hybrid's config.json: every fourth layer is full attention, the others are recurrent."""
    heads = {"num_attention_heads": 24, "num_key_value_heads": 4, "head_dim": 256}
    recurrent = {"linear_num_key_heads": 16, "linear_num_value_heads": 48, "linear_key_head_dim": 128}
    recurrent |= {"linear_value_head_dim": 128, "linear_conv_kernel_dim": 4}
    sizes = {"hidden_size": 5120, "intermediate_size": 17408, "vocab_size": 248320, "max_position_embeddings": 262144}
    names = {"architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "mamba_ssm_dtype": "float32"}
    return {**names, **sizes, **heads, **recurrent, "num_hidden_layers": layers, "full_attention_interval": 4}


def checkpoint(folder: Path, size: Size) -> int:
    """Make the files; return the bytes of their headers, the index and config.json."""
    folder.mkdir()
    weight_map: dict[str, str] = {}
    headers = 0
    for shard in range(size.shards):
        file = f"model-{shard + 1:05}-of-{size.shards:05}.safetensors"
        layer = f"model.layers.{shard % size.layers}.mlp"
        names = [f"{layer}.experts.{shard}.{number}.down_proj.weight" for number in range(size.tensors)]
        sparse_shard(folder / file, names, SHARD_BYTES)
        headers += (folder / file).stat().st_size - SHARD_BYTES // size.tensors * size.tensors
        weight_map |= dict.fromkeys(names, file)
    texts = {
        "model.safetensors.index.json": {"metadata": {}, "weight_map": weight_map},
        "config.json": model(size.layers),
    }
    for name, content in texts.items():
        (folder / name).write_text(json.dumps(content))
        headers += (folder / name).stat().st_size
    return headers


def measure(size: Size, rounds: int) -> dict[str, float]:
    """Milliseconds of each step, and bytes; in a process of its own, as the peak of memory never falls."""
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / "checkpoint"
        headers = checkpoint(folder, size)
        command = [sys.executable, "-c", CHILD, str(folder), str(rounds)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    found: dict[str, float] = json.loads(answer)
    return {**found, "ours": found["facts"] + found["plan"] + found["json"], "headers": headers}


def table(title: str, sizes: Iterable[Size], rounds: int) -> dict[Size, float]:
    """Print one line a size; return the milliseconds of our own work."""
    print(f"\n{title}")
    print(f"{'shards':>7}{'tensors':>9}{'layers':>7}{'size':>10}{'facts':>9}{'plan':>9}{'json':>8}", end="")
    print(f"{'ours':>9}{'a shard':>10}{'read':>10}{'headers':>10}{'memory':>9}")
    found = {}
    for size in sizes:
        line = measure(size, rounds)
        found[size] = line["ours"]
        print(f"{size.shards:7}{size.shards * size.tensors:9}{size.layers:7}", end="")
        print(f"{size.shards * SHARD_BYTES / GB:7.0f} GB{line['facts']:6.1f} ms{line['plan']:6.1f} ms", end="")
        print(f"{line['json']:5.1f} ms{line['ours']:6.1f} ms{1000 * line['ours'] / size.shards:7.0f} us", end="")
        print(f"{line['read'] / 1e6:7.2f} MB{line['headers'] / 1e6:7.2f} MB{line['memory'] / 1e6:6.1f} MB", flush=True)
    return found


def main() -> None:
    """Measure along each axis, and say whether the goal is met."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    shards = table("shards of 20 tensors", [Size(count, 20, 48) for count in SHARDS], rounds)
    table("tensors of a shard", [Size(GOAL_SHARDS, count, 48) for count in TENSORS], rounds)
    table("layers", [Size(1, 20, count) for count in LAYERS], rounds)
    ours = shards[Size(GOAL_SHARDS, 20, 48)]
    verdict = "met" if ours < GOAL_MS else f"missed by {ours - GOAL_MS:.0f} ms"
    print(f"\ngoal: {GOAL_SHARDS} shards in {GOAL_MS} ms of our own work: {ours:.1f} ms, {verdict}")
    few, many = (shards[Size(count, 20, 48)] / count for count in (GOAL_SHARDS, SHARDS[-1]))
    print(f"linear: a shard takes {1000 * few:.0f} us of {GOAL_SHARDS} and {1000 * many:.0f} us of {SHARDS[-1]}")


if __name__ == "__main__":
    main()
