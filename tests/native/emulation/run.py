"""Runs checks on the emulated library, in a process of its own; prints how many, and what failed, as JSON.

usage: run.py LIBRARY SEED NAME...
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import torch

from kernels.checks.suite import cases


def main():
    library, seed, names = sys.argv[1], int(sys.argv[2]), set(sys.argv[3:])
    torch.set_num_threads(1)
    torch.ops.load_library(library)
    failed, done = {}, 0
    for case in cases():
        if case.name not in names:
            continue
        done += 1
        try:
            case.run("cpu", seed)
        except (AssertionError, RuntimeError) as error:
            failed[case.name] = str(error).splitlines()[0]
    print(json.dumps({"done": done, "failed": failed}))


if __name__ == "__main__":
    main()
