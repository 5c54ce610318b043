"""One server for a case, through `python -m toolkit.serve`."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tests.gpu.serving.cases import CACHE
from tests.gpu.serving.client import Client

START_S = 420
STOP_S = 60
WITHOUT_MULTICAST = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
}
"""Newer GPUs than a V100 talk by NVLink multicast too: it is not among the routes that are proved, and a program that
uses it can harm its neighbours on a shared host. `serve` passes none of the shell's own settings on to the engine."""


def overrides(case, place):
    """The arguments of toolkit.serve.

    The engine asks for its share of a GPU's memory to be free at the start, also where the cache's bytes are told.
    """
    extra = ["--limit-mm-per-prompt", '{"image":0,"video":0}'] if case.family == "qwen3_5" else []
    extra += [word.format(models=place.models) for word in case.arguments]
    path = os.environ.get("PYTHONPATH")
    variables = {**({"PYTHONPATH": path} if path else {}), **(WITHOUT_MULTICAST if case.gpus > 1 else {})}
    return [
        "engine=v100",
        "engine.prove_on_any_gpu=true",
        f"engine.compile={str(case.compiled).lower()}",
        f"engine.extra_arguments={json.dumps(extra)}",
        *(f'+engine.environment.{name}="{value}"' for name, value in variables.items()),
        "engine.start_timeout_s=300",
        "hardware=v100_pcie_32gb_x1" if case.gpus == 1 else "hardware=v100_sxm2_32gb_x4",
        f"limits.tensor_parallel={case.gpus}",
        f"kv={case.kv}",
        f"checkpoint.name={case.family}",
        "checkpoint.source.kind=local",
        f"checkpoint.source.path={place.models / case.family}",
        f"limits.kv_cache_memory_bytes={CACHE}",
        f"limits.gpu_memory_utilization={place.share}",
        "limits.max_num_seqs=64",
        f"server.port={place.port}",
        "output=json",
        *(word.format(models=place.models) for word in case.overrides),
    ]


def refusal(case, place):
    """The ids of the rules that refuse the case; RuntimeError where serve does anything else."""
    command = [sys.executable, "-m", "toolkit.serve", *overrides(case, place)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tempfile.mkdtemp(), timeout=START_S, check=False)
    try:
        document = json.loads(done.stdout)
        return sorted({each["candidate"].partition(" ")[0] for each in document["rejected"]})
    except (ValueError, KeyError):
        raise RuntimeError(f"toolkit.serve ended with {done.returncode}: {done.stderr[-1500:]}") from None


class Served:
    """A case's server while it runs; a context manager that yields it ready and stops it in order."""

    def __init__(self, case, place):
        self.client = Client(place.port, case.family)
        self._arguments = overrides(case, place)
        self._said, self._errors = place.logs / f"{case.name}.out", place.logs / f"{case.name}.err"

    def __enter__(self):
        begun = time.monotonic()
        with self._said.open("wb") as out, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "toolkit.serve", *self._arguments],
                stdout=out,
                stderr=errors,
                cwd=tempfile.mkdtemp(),
                start_new_session=True,
            )
        try:
            self.document = self._document(begun)
        except BaseException:
            end(self._process, signal.SIGTERM)
            raise
        self.seconds = time.monotonic() - begun
        return self

    def __exit__(self, *_):
        self.exit_code = end(self._process, signal.SIGTERM)

    def _document(self, begun):
        while time.monotonic() - begun < START_S:
            try:
                document = json.loads(self._said.read_text())
            except ValueError:
                if self._process.poll() is not None:
                    raise RuntimeError(
                        f"toolkit.serve ended with {self._process.returncode}: {self.errors()}"
                    ) from None
                time.sleep(0.5)
                continue
            if document["result"] != "answered":
                raise RuntimeError(f"{document}: {self.errors()}")
            return document
        raise RuntimeError(f"not ready after {START_S} s: {self.errors()}")

    def errors(self):
        """The end of what serve said."""
        return self._errors.read_text(errors="replace")[-3000:]

    @property
    def receipt(self):
        """The run's receipt, with the workers' reports."""
        return json.loads(Path(self.document["receipt"]).read_text())

    @property
    def timings(self):
        """Seconds of each phase, from the receipt."""
        return {phase: round(seconds, 1) for phase, seconds in self.receipt["timings"].items()}


def end(process, sign):
    """Send the signal and wait; what is left of its session after STOP_S is killed. Returns the exit code."""
    with suppress(ProcessLookupError):
        process.send_signal(sign)
    try:
        return process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return process.wait()
