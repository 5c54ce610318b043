"""Run the GPU checks without pytest and write the record: python3 tests/gpu/run.py [--seed N] [--json FILE]."""

import argparse
import json
import secrets
import subprocess
import sys
import time
import traceback
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from kernels.checks import alias, graphs
from kernels.checks.suite import cases
from toolkit.native import info, load


def checks(seed):
    """(name, function without arguments) of every check; the graph goes first, so that its capture loads the code."""
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


def driver_version():
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="", help="text in the names of the checks to run")
    parser.add_argument("--skip", nargs="*", default=[], help="texts in the names of checks to leave out")
    args = parser.parse_args()
    load()
    native = info()
    results, failures, started = {}, {}, time.monotonic()
    for name, check in checks(args.seed):
        if args.only not in name or any(text in name for text in args.skip):
            continue
        try:
            deviation = check()
            torch.cuda.synchronize()
            results[name] = None if deviation is None else [round(deviation.worst, 4), round(deviation.exact, 6)]
        except Exception as error:  # noqa: BLE001 - every failure goes into the record
            failures[name] = str(error) or repr(error)
            traceback.print_exc()
    record = {
        "gpu": torch.cuda.get_device_name(),
        "capability": list(torch.cuda.get_device_capability()),
        "driver": driver_version(),
        "torch": torch.__version__,
        "commit": native.commit,
        "dirty": native.dirty,
        "kernels_sha256": native.kernels_sha256,
        "device_code": {f"{code.name}.{code.kind}": code.sha256 for code in native.device_code},
        "seed": args.seed,
        "checks": len(results) + len(failures),
        "failures": failures,
        "worst_error_and_share_exact": results,
    }
    if args.json:
        args.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    seconds = time.monotonic() - started
    print(f"{len(results)} checks passed, {len(failures)} failed, seed {args.seed}, {seconds:.0f} s, {record['gpu']}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
