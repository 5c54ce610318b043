"""What KV scales do to a real model: attention output and next-token distribution against an unquantized cache.

    python benchmarks/kv_scales.py PACK [--route upstream] [--output docs/evidence/kv_scales_smollm2_cpu]

PACK is what `python -m toolkit.calibrate +recipe=smollm2_cpu folder=PACK` wrote. The model answers prompts that are not
among those of the calibration, with an unquantized cache; then every arm reads the same tokens, and each position's
distribution over all tokens of the vocabulary is compared with that of the unquantized cache. Attention reads keys and
values from the cache in prefill as in decoding, so each position sees what a decoded one would see. Every arm with E4M3
is a view made by the toolkit's own functions, with its scales proved by the worker's report; after each prompt the
bytes that lie in its cache are counted. The tokens with which all prompts begin (the model's system prompt) are left
out of every comparison: they are the same positions each time, and would make one chance of 32 prompts count 32 times.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
import yaml
from guarded import guarded
from kv_scales_judge import (
    CALIBRATED,
    UNIT,
    Codes,
    calibrated_holds,
    claims,
    codes_of,
    judged,
    own_positions,
    scaled_name,
)
from kv_scales_page import page, picture
from safetensors import safe_open
from torch import Tensor

import toolkit
from toolkit.checkpoint.facts import CheckpointFacts
from toolkit.checkpoint.local import read_facts
from toolkit.checkpoint.sources import fetch
from toolkit.config.schema.checkpoint import CheckpointConfig, CheckpointSource, SourceKind
from toolkit.planning.attention_routes import UPSTREAM, VOLTA_CPU_FP8, VOLTA_CPU_WRITE
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
    "What is the difference between weather and climate?",
    "Translate into German: The library opens at nine and closes at half past six.",
    "Write a haiku about the first snow.",
    "Explain what a hash table is to a beginner, and when it is slow.",
    "My code says IndexError: list index out of range. What should I look at first?",
    "Write a SQL query that lists the ten customers with the largest total of orders.",
    "If a train travels 240 km in 3 hours, what is its average speed? Show the steps.",
    "Give three arguments for and three against homework in primary school.",
    "¿Cuáles son los ingredientes de una tortilla de patatas?",
    "Racconta in breve la storia di Roma antica.",
    "日本の首都はどこですか。簡単に説明してください。",
    "请用三句话介绍长城。",
    "Что такое фотосинтез?",
    "Draft a short notice for a block of flats: the water is off on Tuesday from 8 to 12.",
    "Rewrite in plain English: The aforementioned party shall hereinafter be referred to as the lessee.",
    "What should I pack for a weekend hike in the mountains in October?",
    "Convert to JSON: name Ada, born 1815, field mathematics, known for the first program.",
    "Why does bread rise, and what happens if the dough rests too long?",
    "Compose a limerick about a cat that learns to code.",
    "Continue this list: 1, 1, 2, 3, 5, 8, and explain the rule.",
)
GENERATE = 96
ANSWERING, READING = 128 << 20, 32 << 20
"""Bytes of the cache: where all prompts are answered at once, and where one sequence after the other is read."""
FACTORS = (1 / 16, 1 / 4, 1, 4, 16, 64, 256, 1024, 4096)
"""By which calibrated scales are made wrong; powers of two, so that the products are exact."""
FORMATS = {"fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2}


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

    def run(self, arms: Sequence[Arm], **told: Any) -> tuple[Any, list[Path]]:
        """Arms of one KV dtype: what they answered, and each one's records; their scales are checked against views."""
        own = self.scratch / f"{arms[0].name} {time.monotonic_ns()}"
        own.mkdir()
        folders = [self._folder(arm) for arm in arms]
        reports = [own / f"workers {number}" for number in range(len(arms))]
        records, answer = [own / f"{number}.pt" for number in range(len(arms))], own / "answer.json"
        runs = [
            {"folder": str(folder), "reports": str(report), "records": str(record)}
            for folder, report, record in zip(folders, reports, records, strict=True)
        ]
        told = {"chats": [], "sequences": [], "generate": GENERATE, "cache_bytes": READING, "arms": runs, **told}
        told |= {"folder": str(self.base.root), "answer": str(answer)}
        told |= {"kv_dtype": arms[0].kv_dtype, "route": self.route}
        env = {**os.environ, "PYTHONPATH": f"{HERE}{os.pathsep}{HERE.parent}", "VLLM_HOST_IP": "127.0.0.1"}
        order = own / "order.json"
        order.write_text(json.dumps(told), encoding="utf-8")
        with guarded([sys.executable, str(HERE / "kv_scales_arm.py"), str(order)], env) as arm:
            if arm.wait():
                sys.exit(f"{arms[0].name}: {arm.log.read_text(errors='replace')[-4000:]}")
        for folder, report in zip(folders, reports, strict=True):
            check_scales(read_reports(report), ExpectedScales(served_scales(read_facts(folder, "view"))), report)
        return json.loads(answer.read_text()) if answer.exists() else None, records

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
        scales = {name: value * factor for name, value in pack.scales.items()}
        return make_pack(f"{factor:g} x", pack.base_index_sha256, scales, {}, SCALE_FILE)

    unit = unit_pack(scale_names(base.tensors), pack.base_index_sha256)
    return [
        Arm("unquantized again", "auto", None),
        Arm(CALIBRATED, "fp8_e4m3", pack),
        Arm(UNIT, "fp8_e4m3", unit),
        *(Arm(scaled_name(factor), "fp8_e4m3", times(factor)) for factor in FACTORS if factor != 1),
        Arm("e5m2, unit scales", "fp8_e5m2", None),
    ]


def compared(reference: dict[str, Any], other: dict[str, Any], head: Tensor, own: Sequence[slice]) -> dict[str, Any]:
    """KL divergence in nats, top-1 agreement and attention error of one arm. own: each prompt's own positions."""
    kl, same = [], []
    for ours, theirs in zip(reference["states"].split(128), other["states"].split(128), strict=True):
        first, second = (torch.log_softmax(part.float() @ head.T, -1) for part in (ours, theirs))
        kl.append((first.exp() * (first - second)).sum(-1).clamp_min(0))
        same.append(first.argmax(-1) == second.argmax(-1))
    divergences, agreements = ([torch.cat(parts).double()[part] for part in own] for parts in (kl, same))
    divergence = torch.cat(divergences)
    errors = {
        name: float((other["outputs"][name].float() - output.float()).norm() / output.float().norm())
        for name, output in reference["outputs"].items()
    }
    return {
        "kl_mean": float(divergence.mean()),
        "kl_median": float(divergence.median()),
        "kl_p99": float(divergence.quantile(0.99)),
        "kl_max": float(divergence.max()),
        "top1_agreement": float(torch.cat(agreements).mean()),
        "attention_error_first_layer": next(iter(errors.values())),
        "attention_error_mean": sum(errors.values()) / len(errors),
        "kl_by_prompt": [float(part.mean()) for part in divergences],
        "top1_by_prompt": [float(part.mean()) for part in agreements],
    }


def measured(place: Place, pack: ScalePack) -> dict[str, Any]:
    """The record: every arm against the unquantized cache."""
    plain, *others = arms(place.base, pack)
    sequences, (first, again) = place.run([plain, plain], chats=list(CHATS), cache_bytes=ANSWERING)
    own, reference = own_positions(sequences), torch.load(first)
    if len(reference["states"]) != sum(map(len, sequences)):
        sys.exit(f"{len(reference['states'])} states were recorded for {sum(map(len, sequences))} tokens")
    with safe_open(next(Path(str(place.base.root)).glob("*.safetensors")), framework="pt") as file:
        head = file.get_tensor("model.embed_tokens.weight").float()  # the model ties its output to it
    found: dict[str, Any] = {plain.name: compared(reference, torch.load(again), head, own)}
    codes: dict[str, dict[str, Codes]] = {}
    for dtype, alike in groupby(others, lambda arm: arm.kv_dtype):
        group = list(alike)
        for arm, records in zip(group, place.run(group, sequences=sequences)[1], strict=True):
            record = torch.load(records)
            found[arm.name] = compared(reference, record, head, own)
            kinds = zip("kv", record["codes"], strict=True)
            codes[arm.name] = {kind: codes_of(counts, FORMATS[dtype]) for kind, counts in kinds}
            records.unlink()
            told = {key: value for key, value in found[arm.name].items() if "by" not in key}
            print(arm.name, told, codes[arm.name], flush=True)
    against = judged(found)
    return {
        "positions": sum(part.stop - part.start for part in own),
        "prompts": len(own),
        "claims": claims(found, against, codes),
        "calibrated_is_not_worse_than_unit": calibrated_holds(against),
        "against": against,
        "codes": {name: {kind: asdict(use) for kind, use in kinds.items()} for name, kinds in codes.items()},
        "arms": found,
    }


def main() -> int:
    """Measure, print the page, and write it where asked; 1 where calibrated scales are worse than unit scales."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pack", type=Path)
    parser.add_argument("--route", default=VOLTA_CPU_WRITE, choices=(VOLTA_CPU_WRITE, VOLTA_CPU_FP8, UPSTREAM))
    parser.add_argument("--output", type=Path, help="writes OUTPUT.json, OUTPUT.md and OUTPUT.svg")
    options = parser.parse_args()
    import vllm

    base, pack = smollm2(), read_pack(options.pack)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        found = measured(Place(Path(scratch), base, options.route), pack)
    route = "" if options.route == VOLTA_CPU_WRITE else f" --route {options.route}"
    record = {
        "command": f"python benchmarks/kv_scales.py PACK{route}",
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": round(time.monotonic() - begun),
        "packages": {"toolkit": toolkit.__version__, "vllm": vllm.__version__, "torch": torch.__version__},
        "route": options.route,
        "pack": {"artifact_id": pack.artifact, "sha256": pack.sha256},
        **found,
    }
    if options.output:
        drawing = options.output.with_suffix(".svg")
        options.output.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        options.output.with_suffix(".md").write_text(page(record, drawing.name), encoding="utf-8")
        drawing.write_text(picture(record, FACTORS), encoding="utf-8")
    print(page(record, None))
    return 0 if record["calibrated_is_not_worse_than_unit"] else 1


if __name__ == "__main__":
    sys.exit(main())
