"""CPU time of one operator call where the work is nothing, beside one of torch's own.

usage: python benchmarks/native_calls.py [--json FILE]; on a machine with a GPU, on both devices

It needs torch and build/native/volta_native.so of this checkout, and nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
import timeit
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from toolkit.native import load

NUMBER, REPEATS = 5000, 7


def calls_us() -> dict[str, float]:
    """Microseconds of CPU time of one call by name and device: the least of some repetitions."""
    load()
    found = {}
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        x, weight = (torch.randn(*shape, device=device).half() for shape in ((1, 8), (8,)))
        result = torch.empty_like(x)
        calls = {
            "volta::rms_norm": partial(torch.ops.volta.rms_norm.default, result, x, weight, 1e-6),
            "aten::add.out": partial(torch.ops.aten.add.out, x, x, out=result),
        }
        for name, call in calls.items():
            times = timeit.repeat(call, number=NUMBER, repeat=REPEATS, timer=time.process_time)
            found[f"{name} {device}"] = min(times) / NUMBER * 1e6
            print(f"one call of {name:16} {device:5} {found[f'{name} {device}']:6.2f} us CPU", flush=True)
    return found


def main() -> int:
    """Print the times, and write JSON where asked."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    calls = calls_us()
    if args.json:
        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
        record = {
            "gpu": gpu,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "load": os.getloadavg()[0],
        }
        record["call_us"] = {name: round(value, 2) for name, value in calls.items()}
        args.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
