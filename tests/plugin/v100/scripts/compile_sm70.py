"""Compiles the Triton kernels of the serving paths for sm_70 and writes what each needs, as JSON, to a file.

Upstream's launchers are called with tensors on the CPU, so signatures and constants are the ones that serving uses.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from sm70.recorder import Recorder, pretend_v100, traits

recorder = Recorder()
recorder.install()

pretend_v100()

from sm70 import attention, batch, drafts, experts, lora, recurrent, requests, sampling, serving, states  # noqa: E402


def compiled(part):
    """A row for each kernel and case, and one for a case that fails."""
    for case, call in part.cases():
        row = {"part": part.__name__.rpartition(".")[2], "case": case}
        error = None
        try:
            call()
        except Exception as problem:  # noqa: BLE001 - why it does not compile is the result
            error = f"{type(problem).__name__}: {problem}".strip().splitlines()[-1]
        kernels = recorder.take()
        yield from ({**row, "kernel": kernel, **traits(made)} for kernel, made in kernels.items())
        if error or not kernels:
            yield {**row, "error": error or "it launched nothing"}


PARTS = (attention, experts, recurrent, states, batch, sampling, requests, drafts, lora)
rows = [row for part in PARTS for row in compiled(part)]
found = {"rows": rows, "loaded": serving.loaded_kernels(), "unreported": serving.unreported_kernels()}
Path(sys.argv[1]).write_text(json.dumps(found, indent=1))
