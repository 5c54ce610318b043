"""One server for a case, through `python -m toolkit.serve`; and upstream's own, for comparison."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.gpu.serving.cases import CACHE
from tests.gpu.serving.client import Client

ROOT = Path(__file__).parents[3]
START_S = 300


def overrides(case, model, port):
    """The arguments of toolkit.serve."""
    extra = ["--limit-mm-per-prompt", '{"image":0,"video":0}'] if case.family == "qwen3_5" else []
    return [
        "engine=v100",
        "engine.prove_on_any_gpu=true",
        f"engine.compile={str(case.compiled).lower()}",
        f"engine.extra_arguments={json.dumps([*extra, *case.arguments])}",
        f'+engine.environment.PYTHONPATH="{os.environ["PYTHONPATH"]}"',
        "engine.start_timeout_s=300",
        "hardware=v100_pcie_32gb_x1",
        f"kv={case.kv}",
        f"checkpoint.name={case.family}",
        "checkpoint.source.kind=local",
        f"checkpoint.source.path={model}",
        f"limits.kv_cache_memory_bytes={CACHE}",
        "limits.gpu_memory_utilization=0.5",  # the engine asks for that share to be free; others may run beside it
        "limits.max_num_seqs=64",
        f"server.port={port}",
        "output=json",
        *case.overrides,
    ]


class Served:
    """A case's server while it runs; a context manager that yields it ready and stops it in order."""

    def __init__(self, case, model, port, logs):
        self.case, self.port, self.client = case, port, Client(port, case.family)
        self._arguments = overrides(case, model, port)
        self._said, self._errors = logs / f"{case.name}.out", logs / f"{case.name}.err"

    def __enter__(self):
        begun = time.monotonic()
        with self._said.open("wb") as out, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "toolkit.serve", *self._arguments],
                stdout=out,
                stderr=errors,
                cwd=tempfile.mkdtemp(),
            )
        self.document = self._document(begun)
        self.seconds = time.monotonic() - begun
        return self

    def __exit__(self, *_):
        self._process.send_signal(signal.SIGINT)
        self.exit_code = self._process.wait(60)

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
        self._process.kill()
        raise RuntimeError(f"not ready after {START_S} s: {self.errors()}")

    def errors(self):
        """The end of what serve said."""
        return self._errors.read_text(errors="replace")[-3000:]

    @property
    def receipt(self):
        """The run's receipt, with the workers' reports."""
        return json.loads(Path(self.document["receipt"]).read_text())


class Stock:
    """The same model by upstream's own platform and operators, with the arguments that the run's receipt records."""

    def __init__(self, case, receipt, port, logs):
        self.case, self.client = case, Client(port, case.family)
        self._argv, self._log, self._port = stock_argv(receipt["argv"], port), logs / f"{case.name}.stock", port

    def __enter__(self):
        begun = time.monotonic()
        environment = {**os.environ, "VLLM_PLUGINS": "", "VLLM_USE_FLASHINFER_SAMPLER": "0", "HF_HUB_OFFLINE": "1"}
        environment.pop("VOLTA_PLATFORM", None)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._argv, stdout=log, stderr=log, env=environment, cwd=tempfile.mkdtemp()
            )
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() - begun > START_S:
                raise RuntimeError(f"stock vLLM did not start: {self._log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.5)
        self.seconds = time.monotonic() - begun
        return self

    def __exit__(self, *_):
        self._process.send_signal(signal.SIGINT)
        self._process.wait(60)

    def _answers(self):
        try:
            return bool(self.client.complete([300, 301], 1))
        except OSError:
            return False


def stock_argv(argv, port):
    """Our command line without what is ours."""
    kept, skip = [], False
    for word in argv:
        if skip:
            skip = False
        elif word in {"--worker-cls", "--additional-config", "--port"}:
            skip = True
        else:
            kept.append(word)
    return [*kept, "--port", str(port), "--attention-backend", "TRITON_ATTN"]
