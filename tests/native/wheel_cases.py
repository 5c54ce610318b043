"""Runs the operators' checks on an unpacked wheel, in a process of its own; prints what came of it as JSON.

usage: python -I -S wheel_cases.py FOLDER EACH SITE-PACKAGES

EACH is how many cases of each operator are run, evenly spread over those that it has. -S keeps .pth files, and with
them editable installs of a checkout, out of the process; torch comes from SITE-PACKAGES.
"""

import hashlib
import json
import sys
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, sys.argv[1])
sys.path += [sys.argv[3], str(Path(__file__).resolve().parents[2])]  # the last one for kernels/, which no wheel holds

import torch

import toolkit
from kernels.checks.suite import cases
from toolkit.native import load


def chosen(each):
    families = defaultdict(list)
    for case in cases():
        families[case.name.split("-")[0]].append(case)
    return [case for found in families.values() for case in found[:: -(-len(found) // each)]]


def mapped():
    """SHA-256 by path of every native library of ours in this process."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    paths = {line.split(maxsplit=5)[-1] for line in lines if line.endswith("volta_native.so")}
    return {path: hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in paths}


def main():
    load()
    failed, run = {}, chosen(int(sys.argv[2]))
    for case in run:
        try:
            case.run("cpu", 20260101)
        except (AssertionError, RuntimeError) as error:
            failed[case.name] = str(error).splitlines()[0]
    found = {"torch": torch.__version__, "toolkit": toolkit.__file__, "libraries": mapped()}
    print(json.dumps({**found, "cases": [case.name for case in run], "failed": failed}))


if __name__ == "__main__":
    main()
