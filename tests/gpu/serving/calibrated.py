"""Calibrate, make a view and serve it on this GPU: python -m tests.gpu.serving.calibrated --json FILE.

Needs what prove.py needs. Each model's keys and values are measured by `python -m toolkit.calibrate`; the pack is then
served by `python -m toolkit.serve kv=fp8_e4m3`, and every layer's scale in the workers' reports must be the pack's, to
the bit. Controls: a pack with scales 16 times too small reaches the layers and changes what is answered, and without a
pack every scale is 1. The record is written after each step. With --smollm2 FOLDER also a real model's weights.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from safetensors.torch import load_file

from tests.gpu.serving.cases import Case
from tests.gpu.serving.checks import capital, prompts
from tests.gpu.serving.judge import share
from tests.gpu.serving.models import make
from tests.gpu.serving.one import Place
from tests.gpu.serving.record import machine
from tests.gpu.serving.server import Served, overrides
from tests.gpu.serving.smollm2 import materialized
from toolkit.planning.worker_report import layer_key
from toolkit.views.scales.names import layer_and_kind
from toolkit.views.scales.pack import SCALE_FILE, make_pack, pack_files, read_pack

SMOLLM2 = "smollm2"
SHARED = ("limits.max_model_len=2048",)
DRAFTING = {"qwen3_next": ("speculative=mtp3",), "qwen3_5": ("speculative=mtp3",)}
"""Families whose own draft layers are measured and served as well."""
TOO_SMALL = 16
SPOILT = "16-times-too-small"
DEGENERATE = "output is degenerate"
"""What `serve` itself says of a real model with such scales."""
CALIBRATE_S = 560
SHARE = 0.3
"""Of the GPU's memory, so that other models may be proved beside."""


class Record:
    """What was seen so far, on the disk at any moment."""

    def __init__(self, path, head):
        self._path, self._data = path, {**head, "models": {}}

    def add(self, model, step, seen):
        """Keep one step of one model."""
        self._data["models"].setdefault(model, {})[step] = seen
        print(json.dumps({"model": model, step: seen}), flush=True)
        if self._path:
            self._path.write_text(json.dumps(self._data, indent=1) + "\n", encoding="utf-8")

    @property
    def faults(self):
        """Steps that went wrong."""
        steps = ((model, step, seen) for model, found in self._data["models"].items() for step, seen in found.items())
        return [f"{model}: {step}" for model, step, seen in steps if "fault" in seen]


def calibrate(case, place, pack):
    """Measure; what the verb says of it."""
    command = [sys.executable, "-m", "toolkit.calibrate", *overrides(case, place)]
    command += [f"folder={pack}", "max_tokens=8"]
    begun = time.monotonic()
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tempfile.mkdtemp(), timeout=CALIBRATE_S
    )
    if done.returncode:
        raise RuntimeError(f"toolkit.calibrate ended with {done.returncode}: {done.stderr[-3000:]}")
    report = json.loads(done.stdout)
    entries = report["scales"]
    return {
        "seconds": round(time.monotonic() - begun, 1),
        "prompts": report["prompts"],
        "scales": len(entries),
        "drafts": sum(entry["draft"] for entry in entries),
        "largest": {kind: max(entry["max_abs"] for entry in entries if entry["kind"] == kind) for kind in "kv"},
        "stability": report["stability"],
    }


def spoilt(pack, folder):
    """The pack with scales that clip nearly everything."""
    good = read_pack(pack)
    scales = {name: value / TOO_SMALL for name, value in good.scales.items()}  # a power of two: exact in FP32
    folder.mkdir()
    for name, data in pack_files(make_pack("spoilt", good.base_index_sha256, scales, {}, SCALE_FILE)).items():
        (folder / name).write_bytes(data)
    return folder


def used_scales(receipt):
    """Every layer's scales as each worker's kernels read them; both copies must agree."""
    found = {}
    for worker in receipt["workers"]:
        assert worker["unused_scales"] == [], f"rank {worker['rank']} left {worker['unused_scales']} unused"
        for layer in worker["layers"]:
            assert layer["kv_dtype"] == "fp8_e4m3", layer
            for kind in "kv":
                seen = {*layer[f"{kind}_scale"], layer[f"{kind}_scale_host"]}
                assert len(seen) == 1, layer
                found.setdefault((layer_key(layer["name"]), kind), set()).update(seen)
    assert found, "no worker reports an attention layer"
    assert all(len(seen) == 1 for seen in found.values()), f"ranks differ: {found}"
    return {place: seen.pop() for place, seen in found.items()}


def packed_scales(pack, used):
    """What they must be: the shard's, read by safetensors; 1 for every layer without a pack."""
    if pack is None:
        return dict.fromkeys(used, 1.0)
    tensors = load_file(pack / SCALE_FILE)
    return {(layer_key(name), layer_and_kind(name)[1]): float(value) for name, value in tensors.items()}


def serve(case, place, pack):
    """Serve with a pack or none; what was seen, and the tokens that were answered."""
    with Served(case, place) as served:
        tokens = [served.client.complete(prompt) for prompt in prompts(1, 33, 170, 700)]
        seen = {"ready_s": round(served.seconds, 1)}
        if case.family == SMOLLM2 and case.label == "calibrated":
            seen |= capital(served.client)
    receipt = served.receipt
    used = used_scales(receipt)
    wanted = packed_scales(pack, used)
    wrong = {str(place): (used.get(place), wanted.get(place)) for place in used.keys() | wanted.keys()}
    wrong = {place: pair for place, pair in wrong.items() if pair[0] != pair[1]}
    assert not wrong, f"used and packed scales differ: {wrong}"
    layers = [layer for worker in receipt["workers"] for layer in worker["layers"]]
    seen |= {
        "ranks": len(receipt["workers"]),
        "layers": len({layer["name"] for layer in layers}),
        "scales_equal_to_the_pack": len(used),
        "attention": sorted({layer["backend"] for layer in layers}),
        "view": Path(receipt["plan"]["view"]["path"]).name,
        "exit_code": served.exit_code,
    }
    return seen, tokens


def arms(pack, wanted):
    """(label, compiled, pack) of each server."""
    yield "calibrated", True, pack
    if "small" in wanted:
        yield SPOILT, False, spoilt(pack, pack.with_name(f"{pack.name}-spoilt"))
    if "none" in wanted:
        yield "no-pack", False, None


def prove(name, place, args, record, scratch):
    """One model, step by step; a step that fails ends it."""
    pack, first, step = scratch / name, None, "calibrate"
    shared = (*SHARED, *DRAFTING.get(name, ()), *args.override)
    try:
        record.add(name, step, calibrate(Case(name, overrides=shared), place, pack))
        for step, compiled, given in arms(pack, args.controls):
            overlay = (f"overlay.path={given}", f"views.root={scratch / 'views'}") if given else ()
            case = Case(name, "fp8_e4m3", compiled and not args.eager, overrides=(*shared, *overlay), label=step)
            try:
                seen, tokens = serve(case, place, given)
            except RuntimeError as error:
                if step != SPOILT or DEGENERATE not in str(error):
                    raise
                record.add(name, step, {"refused": str(error).partition("'what': ")[2].partition(", 'where'")[0]})
                continue
            first = first or tokens
            seen["tokens_equal_to_calibrated"] = share(tokens, first)
            if step == SPOILT:
                assert seen["tokens_equal_to_calibrated"] < 1, (
                    "clipping changed nothing: kernels do not read the scales"
                )
            record.add(name, step, seen)
    except Exception as error:  # noqa: BLE001 - every fault goes into the record
        traceback.print_exc()
        record.add(name, step, {"fault": f"{type(error).__name__}: {error}"[:1500]})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--families", default="qwen3,llama,qwen3_next", help="of families.py, with commas between")
    parser.add_argument("--smollm2", type=Path, help="SmolLM2's GGUF file, or its converted folder")
    parser.add_argument("--controls", default="small,none", help="arms beside the calibrated one: small, none, or ''")
    parser.add_argument("--eager", action="store_true", help="compile nothing: starts faster, proves less")
    parser.add_argument("--override", action="append", default=[], help="for every run, as limits.tensor_parallel=2")
    parser.add_argument("--models", type=Path, default=Path(tempfile.gettempdir()) / "models")
    parser.add_argument("--logs", type=Path, default=Path(tempfile.gettempdir()) / "logs")
    parser.add_argument("--port", type=int, default=8400)
    args = parser.parse_args()
    args.logs.mkdir(parents=True, exist_ok=True)
    record = Record(
        args.json, {**machine(), "command": f"python -m tests.gpu.serving.calibrated {' '.join(sys.argv[1:])}"}
    )
    scratch = Path(tempfile.mkdtemp(prefix="calibrated-"))
    place = Place(args.models, args.logs, args.port, SHARE)
    for family in filter(None, args.families.split(",")):
        if not (args.models / family).exists():
            make(args.models, family)
        prove(family, place, args, record, scratch)
    if args.smollm2:
        args.models.mkdir(parents=True, exist_ok=True)
        materialized(args.smollm2, args.models)
        prove(SMOLLM2, place, args, record, scratch)
    print(f"faults: {record.faults or 'none'}")
    return 1 if record.faults else 0


if __name__ == "__main__":
    sys.exit(main())
