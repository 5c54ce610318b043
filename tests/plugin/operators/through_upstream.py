"""Runs the native library's checks with each operator called by upstream's name, in a process that defines those.

usage: through_upstream.py EACH; runs that many cases of each operator that is ours, and prints what came of it as JSON.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import torch

from kernels.checks.case import Case
from kernels.checks.suite import cases
from toolkit.native import load
from toolkit.plugin.operators import schemas
from toolkit.plugin.operators.define import define_upstream_operators
from toolkit.plugin.operators.states import Kind, state_of


class Upstream:
    """Stands for torch.ops.volta, as the checks call it: an operator with a name of upstream's is upstream's."""

    def __init__(self, ours: Any) -> None:
        self.ours = ours
        self.named = {each.name: each.namespace for each in schemas.read() if state_of(each).kind is Kind.native}

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(torch.ops, self.named[name]) if name in self.named else self.ours, name)


def chosen(each: int) -> list[Case]:
    """Cases of every operator, evenly spread over those that it has. A case is named after its operator."""
    families: dict[str, list[Case]] = defaultdict(list)
    for case in cases():
        families[case.name.split("-")[0]].append(case)
    return [case for found in families.values() for case in found[:: -(-len(found) // each)]]


def main() -> None:
    load()
    called = define_upstream_operators().called
    torch.ops.volta = Upstream(torch.ops.volta)
    failed = {}
    run = chosen(int(sys.argv[1]))
    for case in run:
        try:
            case.run("cpu", 20260101)
        except (AssertionError, RuntimeError) as error:
            failed[case.name] = str(error).splitlines()[0]
    print(json.dumps({"torch": torch.__version__, "cases": len(run), "failed": failed, "called": sorted(called)}))


if __name__ == "__main__":
    main()
