"""Serve every case on this GPU and write the evidence: python -m tests.gpu.serving.prove --json FILE.

Needs vLLM 0.32.0's sources, torch with CUDA, the built native library, and a GPU of capability 7.0 or newer. Each
server is started by `python -m toolkit.serve`. Random models are compared with transformers in float32.
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.gpu.serving.cases import CASES
from tests.gpu.serving.checks import EXTRA, prompts
from tests.gpu.serving.models import make
from tests.gpu.serving.server import Served, Stock

SHOWN = ("case", "ready_s", "reference", "checks", "fault", "stock", "tokens_per_s")
LENGTHS = (5, 33, 170, 700)
BOUNDS = {"reference": (0.95, 0.05), "close": (0.55, 2.5)}
"""Of all tokens: the share that must be the reference's best, and the largest shortfall in nats. An FP8 cache rounds
keys and values to 2 or 3 bits after the leading one, and a random model's choices are near ties."""


def speed(client):
    """Tokens a second of one request, and of 32 at once; each measured once after a request that warms up."""
    one, many = prompts(8, 100)[0], prompts(9, *[100] * 32)
    client.complete(one, 8)
    begun = time.monotonic()
    client.complete(one, 128)
    alone = 128 / (time.monotonic() - begun)
    with ThreadPoolExecutor(32) as pool:
        list(pool.map(lambda prompt: client.complete(prompt, 8), many))
        begun = time.monotonic()
        list(pool.map(lambda prompt: client.complete(prompt, 128), many))
    return {"one": round(alone), "of_32": round(32 * 128 / (time.monotonic() - begun))}


def serve(case, models, port, logs):
    """One case's record: what was served and seen; `fault` where something is wrong."""
    record = {"case": case.name}
    asked = prompts(1, *LENGTHS)
    try:
        with Served(case, models / case.family, port, logs) as served:
            record["ready_s"] = round(served.seconds, 1)
            record["tokens"] = [served.client.complete(prompt) for prompt in asked]
            record["checks"] = {name: EXTRA[name](served.client) for name in case.checks}
            if case.stock:
                record["tokens_per_s"] = speed(served.client)
        receipt = served.receipt
        record |= summary(receipt) | {"exit_code": served.exit_code}
        if case.stock:
            with Stock(case, receipt, port + 500, logs) as stock:
                tokens = [stock.client.complete(prompt) for prompt in asked]
                record["stock"] = {"ready_s": round(stock.seconds, 1), "tokens_per_s": speed(stock.client)}
            record["stock"]["tokens_equal"] = share(tokens, record["tokens"])
    except Exception as error:  # noqa: BLE001 - every fault goes into the record
        record["fault"] = f"{type(error).__name__}: {error}"[-1500:]
        traceback.print_exc()
    return record


def summary(receipt):
    """What the workers report, without what is the same for all."""
    runtime = receipt["workers"][0]["runtime"]
    layers = receipt["workers"][0]["layers"]
    return {
        "platform": runtime["platform"],
        "operators": runtime["operators"],
        "native_libraries": [Path(path).name for path in runtime["native_libraries"]],
        "compilation": runtime["compilation"],
        "graphs": runtime["graphs"],
        "attention": sorted({layer["backend"] for layer in layers}),
        "recurrent": sorted({what for _, what in runtime["recurrent"]}),
        "capacity": receipt.get("capacity"),
        "timings": receipt["timings"],
    }


def share(these, those):
    """Equal tokens up to the first difference of each answer, as a share of all."""
    same = total = 0
    for mine, other in zip(these, those, strict=True):
        total += len(mine)
        for a, b in zip(mine, other, strict=True):
            if a != b:
                break
            same += 1
    return round(same / total, 4)


def judge(case, record, models):
    """Put the comparison with the reference in the tokens' place; a bound that is broken is a fault."""
    from tests.gpu.serving.reference import shortfalls

    if "tokens" not in record or case.against == "none":
        record.pop("tokens", None)
        return
    asked = prompts(1, *LENGTHS)
    nats = [
        short
        for prompt, tokens in zip(asked, record.pop("tokens"), strict=True)
        for short in shortfalls(models / case.family, case.family, prompt, tokens)
    ]
    best, worst = sum(short == 0 for short in nats) / len(nats), max(nats)
    record["reference"] = {"tokens": len(nats), "best": round(best, 4), "largest_shortfall_nats": round(worst, 4)}
    least, most = BOUNDS[case.against]
    if best < least or worst > most:
        record["fault"] = f"{best:.3f} of the tokens are the best (at least {least}), the worst by {worst:.3f} nats"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", type=Path, default=Path(tempfile.gettempdir()) / "models")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--logs", type=Path, default=Path(tempfile.gettempdir()) / "logs")
    parser.add_argument("--only", default="", help="names of cases, or parts of them, with commas between")
    parser.add_argument("--without", default="", help="likewise: cases that are left out")
    parser.add_argument("--at-once", type=int, default=1)
    args = parser.parse_args()
    args.logs.mkdir(parents=True, exist_ok=True)
    cases = [case for case in CASES if chosen(case.name, args.only, args.without)]
    for family in dict.fromkeys(case.family for case in cases):
        if not (args.models / family).exists():
            make(args.models, family)
    with ThreadPoolExecutor(args.at_once) as pool:
        records = list(pool.map(lambda at: serve(at[1], args.models, 8100 + at[0], args.logs), enumerate(cases)))
    for case, record in zip(cases, records, strict=True):
        judge(case, record, args.models)
        print(
            json.dumps(
                {
                    name: record[name]
                    for name in ("case", "reference", "checks", "fault", "stock", "tokens_per_s")
                    if name in record
                }
            ),
            flush=True,
        )
    if args.json:
        args.json.write_text(json.dumps({**machine(), "cases": records}, indent=1) + "\n", encoding="utf-8")
    faults = [record["case"] for record in records if "fault" in record]
    print(f"{len(records) - len(faults)} of {len(records)} cases served as they must; faults: {faults or 'none'}")
    return 1 if faults else 0


def chosen(name, only, without):
    """Whether a case is run: it has one of the wanted parts in its name, and none of the others."""
    parts, others = only.split(","), [part for part in without.split(",") if part]
    return any(part in name for part in parts) and not any(part in name for part in others)


def machine():
    """The GPU and the versions."""
    import torch
    import vllm

    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return {
        "gpu": torch.cuda.get_device_name(),
        "note": "not a V100: device code through compute_70 PTX, Triton kernels compiled for this GPU",
        "driver": subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0],
        "python": platform.python_version(),
        "torch": torch.__version__,
        "vllm": vllm.__version__,
        "command": "python -m tests.gpu.serving.prove --json FILE",
    }


if __name__ == "__main__":
    sys.exit(main())
