"""What KV scales do to a real model: attention output and next-token distribution against an unquantized cache.

    python benchmarks/kv_scales.py PACK [--route volta_cpu_fp8] [--output docs/evidence/kv_scales_smollm2_cpu]

PACK is what `python -m toolkit.calibrate +recipe=smollm2_cpu folder=PACK` wrote. The model answers prompts that are not
among those of the calibration, with an unquantized cache; then every arm reads the same tokens, and each position's
distribution over all tokens of the vocabulary is compared with that of the unquantized cache. Attention reads keys and
values from the cache in prefill as in decoding, so each position sees what a decoded one would see. Every arm but the
first is a view made by the toolkit's own functions, with its scales proved by the worker's report.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors import safe_open
from torch import Tensor

import toolkit
from toolkit.checkpoint.facts import CheckpointFacts
from toolkit.checkpoint.local import read_facts
from toolkit.checkpoint.sources import fetch
from toolkit.config.schema.checkpoint import CheckpointConfig, CheckpointSource, SourceKind
from toolkit.planning.attention_routes import UPSTREAM
from toolkit.serving.worker_reports import ExpectedScales, check_scales, read_reports
from toolkit.views.inputs import PackInput, ViewInputs, read_spec
from toolkit.views.materialize import materialize
from toolkit.views.scales.combine import unit_pack
from toolkit.views.scales.names import scale_names
from toolkit.views.scales.pack import SCALE_FILE, ScalePack, make_pack, pack_files, read_pack
from toolkit.views.scales.served import served_scales
from toolkit.views.store import ViewStore

HERE = Path(__file__).parent
CHATS = (
    "Why do leaves change their colour in autumn?",
    "Write a polite e-mail that asks a neighbour to turn down the music after ten o'clock.",
    "A shop sells pencils at 3 for 2 euros. How much do 18 pencils cost? Explain.",
    "Tell me a short story about a lighthouse keeper who is afraid of the dark.",
    "What are the main differences between a frog and a toad?",
    "Give me a recipe for a simple vegetable soup, with amounts for four people.",
    "Write a Python function that checks whether a word is a palindrome, and show how it is used.",
    "Who was Marie Curie, and what is she known for?",
    "Erkläre einem Kind, warum Schiffe schwimmen.",
    "Quels sont les avantages du vélo en ville ?",
    "Summarise: The river rose two metres overnight. The lower road is closed, and the bridge is inspected at noon.",
    "List the planets of the solar system with one fact about each.",
)
GENERATE = 96
READING = (
    "Too small a scale clips, and that ruins the model. Too large a scale costs little for long: E4M3 has 18 octaves,",
    "of which keys and values need about ten, so 16 times too large is not seen, 4096 times is. vLLM's own",
    "attention rounds towards zero as it stores (half of its bytes lie a step below the nearest), ours to the nearest:",
    "compare the two routes. No more is claimed than this model and these prompts show.",
)
DRAWS = 10000


@dataclass(frozen=True)
class Arm:
    """One way of storing keys and values."""

    name: str
    kv_dtype: str
    pack: ScalePack | None


@dataclass(frozen=True)
class Place:
    """Where arms run."""

    scratch: Path
    base: CheckpointFacts
    route: str

    def run(self, arm: Arm, **told: Any) -> tuple[Any, Path]:
        """The arm's answer and its records; its scales are checked against the view's."""
        folder = self._folder(arm)
        own = self.scratch / f"{arm.name} {time.monotonic_ns()}"
        own.mkdir()
        reports, records, answer = own / "workers", own / "records.pt", own / "answer.json"
        told = {"chats": [], "sequences": [], "num_seqs": 1, "generate": GENERATE, **told}
        paths = {"folder": str(folder), "reports": str(reports), "records": str(records), "answer": str(answer)}
        told |= {**paths, "kv_dtype": arm.kv_dtype, "route": self.route}
        env = {**os.environ, "PYTHONPATH": f"{HERE}{os.pathsep}{HERE.parent}", "VLLM_HOST_IP": "127.0.0.1"}
        command = [sys.executable, str(HERE / "kv_scales_arm.py")]
        done = subprocess.run(command, input=json.dumps(told), text=True, capture_output=True, env=env, check=False)
        if done.returncode:
            sys.exit(f"{arm.name}: {done.stdout[-1500:]}\n{done.stderr[-4000:]}")
        check_scales(read_reports(reports), ExpectedScales(served_scales(read_facts(folder, "view"))), reports)
        return json.loads(answer.read_text()), records

    def _folder(self, arm: Arm) -> Path:
        if arm.pack is None:
            return Path(str(self.base.root))
        packed = self.scratch / f"pack {arm.name}"
        packed.mkdir(exist_ok=True)
        for name, data in pack_files(arm.pack).items():
            (packed / name).write_bytes(data)
        spec = read_spec(ViewInputs(self.base.name, str(self.base.root), (PackInput(str(packed)),)), self.base)
        return materialize(spec, ViewStore.at(str(self.scratch / "views"))).path


def smollm2() -> CheckpointFacts:
    """The embedded model."""
    values = yaml.safe_load((HERE.parent / "conf" / "checkpoint" / "smollm2.yaml").read_text(encoding="utf-8"))
    source = {**values["source"], "kind": SourceKind(values["source"]["kind"])}
    return fetch(CheckpointConfig(values["name"], CheckpointSource(**source), values["declared"]))


def arms(base: CheckpointFacts, pack: ScalePack) -> list[Arm]:
    """Everything that is compared with the unquantized cache; `again` shows what mere repetition changes."""

    def times(factor: float) -> ScalePack:
        scales = {name: value * factor for name, value in pack.scales.items()}  # powers of two: exact in FP32
        return make_pack(f"{factor:g} x", pack.base_index_sha256, scales, {}, SCALE_FILE)

    unit = unit_pack(scale_names(base.tensors), pack.base_index_sha256)
    return [
        Arm("unquantized again", "auto", None),
        Arm("e4m3, calibrated", "fp8_e4m3", pack),
        Arm("e4m3, unit scales", "fp8_e4m3", unit),
        Arm("e4m3, scales 16 times too small", "fp8_e4m3", times(1 / 16)),
        Arm("e4m3, scales 16 times too large", "fp8_e4m3", times(16)),
        Arm("e4m3, scales 4096 times too large", "fp8_e4m3", times(4096)),
        Arm("e5m2, unit scales", "fp8_e5m2", None),
    ]


def compared(reference: dict[str, Any], other: dict[str, Any], head: Tensor, lengths: list[int]) -> dict[str, Any]:
    """KL divergence in nats, top-1 agreement and attention error of one arm."""
    kl, same = [], []
    for ours, theirs in zip(reference["states"].split(128), other["states"].split(128), strict=True):
        first, second = (torch.log_softmax(part.float() @ head.T, -1) for part in (ours, theirs))
        kl.append((first.exp() * (first - second)).sum(-1).clamp_min(0))
        same.append(first.argmax(-1) == second.argmax(-1))
    divergence, agreement = torch.cat(kl).double(), torch.cat(same).double()
    errors = {
        name: float((other["outputs"][name].float() - output.float()).norm() / output.float().norm())
        for name, output in reference["outputs"].items()
    }
    return {
        "kl_mean": float(divergence.mean()),
        "kl_median": float(divergence.median()),
        "kl_p99": float(divergence.quantile(0.99)),
        "kl_max": float(divergence.max()),
        "top1_agreement": float(agreement.mean()),
        "attention_error_first_layer": next(iter(errors.values())),
        "attention_error_mean": sum(errors.values()) / len(errors),
        "kl_by_prompt": [float(part.mean()) for part in divergence.split(lengths)],
        "top1_by_prompt": [float(part.mean()) for part in agreement.split(lengths)],
    }


def interval(first: list[float], second: list[float]) -> list[float]:
    """95 % bootstrap interval, over prompts, of the mean of first - second."""
    differences = [one - other for one, other in zip(first, second, strict=True)]
    draw = random.Random(0)  # noqa: S311
    means = sorted(sum(draw.choices(differences, k=len(differences))) / len(differences) for _ in range(DRAWS))
    return [means[round(0.025 * DRAWS)], means[round(0.975 * DRAWS) - 1]]


def measured(place: Place, pack: ScalePack) -> dict[str, Any]:
    """The record: every arm against the unquantized cache."""
    plain = Arm("unquantized", "auto", None)
    sequences, _ = place.run(plain, chats=list(CHATS), num_seqs=len(CHATS))
    lengths = [len(tokens) for tokens in sequences]
    _, records = place.run(plain, sequences=sequences)
    reference = torch.load(records)
    if len(reference["states"]) != sum(lengths):
        sys.exit(f"{len(reference['states'])} states were recorded for {sum(lengths)} tokens")
    with safe_open(next(Path(str(place.base.root)).glob("*.safetensors")), framework="pt") as file:
        head = file.get_tensor("model.embed_tokens.weight").float()  # the model ties its output to it
    found: dict[str, Any] = {}
    for arm in arms(place.base, pack):
        _, records = place.run(arm, sequences=sequences)
        found[arm.name] = compared(reference, torch.load(records), head, lengths)
        records.unlink()
        print(arm.name, {key: value for key, value in found[arm.name].items() if "by" not in key}, flush=True)
    calibrated, unit = found["e4m3, calibrated"], found["e4m3, unit scales"]
    return {
        "positions": sum(lengths),
        "prompts": len(lengths),
        "arms": found,
        "calibrated_minus_unit": {
            "kl_mean": calibrated["kl_mean"] - unit["kl_mean"],
            "kl_interval_95": interval(calibrated["kl_by_prompt"], unit["kl_by_prompt"]),
            "top1_interval_95": interval(calibrated["top1_by_prompt"], unit["top1_by_prompt"]),
        },
    }


def table(record: dict[str, Any]) -> str:
    """The record as a short page."""
    lines = [
        "# KV scales on a real model",
        "",
        f"`{record['command']}`, {record['created']}, vLLM {record['packages']['vllm']}, attention: {record['route']}.",
        "",
        f"SmolLM2-135M-Instruct on the CPU engine: {record['positions']:,} positions of {record['prompts']} prompts",
        "and the model's answers to them, none of them in the calibration's set. KL is that of the next token's",
        "distribution over the whole vocabulary against an unquantized (float16) cache, in nats; attention error is",
        "|o - o'| / |o| of a layer's output.",
        "",
        "| cache | KL mean | median | 99 % | top-1 agreement | attention error, layer 0 | mean of layers |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, arm in record["arms"].items():
        errors = f"{arm['attention_error_first_layer']:.4f} | {arm['attention_error_mean']:.4f}"
        kl = f"{arm['kl_mean']:.5f} | {arm['kl_median']:.5f} | {arm['kl_p99']:.4f}"
        lines.append(f"| {name} | {kl} | {arm['top1_agreement']:.2%} | {errors} |")
    found = record["calibrated_minus_unit"]
    low, high = found["kl_interval_95"]
    difference = f"{found['kl_mean']:+.5f} nats, 95 % interval over prompts {low:+.5f} to {high:+.5f}"
    lines += ["", f"Calibrated minus unit scales: {difference}.", "", *READING]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pack", type=Path)
    parser.add_argument("--route", default=UPSTREAM, help="volta_cpu_fp8 takes our attention where vLLM has its own")
    parser.add_argument("--output", type=Path, help="writes OUTPUT.json and OUTPUT.md")
    options = parser.parse_args()
    import vllm

    base, pack = smollm2(), read_pack(options.pack)
    with tempfile.TemporaryDirectory() as scratch:
        found = measured(Place(Path(scratch), base, options.route), pack)
    route = "" if options.route == UPSTREAM else f" --route {options.route}"
    record = {
        "command": f"python benchmarks/kv_scales.py PACK{route}",
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "packages": {"toolkit": toolkit.__version__, "vllm": vllm.__version__, "torch": torch.__version__},
        "route": options.route,
        "pack": {"artifact_id": pack.artifact, "sha256": pack.sha256},
        **found,
    }
    print(table(record))
    if options.output:
        options.output.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        options.output.with_suffix(".md").write_text(table(record), encoding="utf-8")


if __name__ == "__main__":
    main()
