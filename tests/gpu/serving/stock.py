"""The same model by upstream's own platform and operators, with the arguments that a receipt of ours records."""

import os
import signal
import subprocess
import tempfile
import time

from tests.gpu.serving.client import Client
from tests.gpu.serving.families import DRAFT_LAYERS
from tests.gpu.serving.server import START_S, end
from toolkit.engine.log import LogFollower
from toolkit.engine.phases import Phase, later_phase

OURS = {"--worker-cls", "--additional-config", "--port"}
"""Arguments with a value that are ours, or differ."""


class Stock:
    """A server while it runs; a context manager that yields it ready. `timings` are the phases that its log tells."""

    def __init__(self, case, place, argv):
        self.client = Client(place.port, case.family)
        self._argv, self._log = stock_argv(argv, place.port, case.family), place.logs / f"{case.name}.stock"
        self.timings = {}

    def __enter__(self):
        environment = {**os.environ, "VLLM_PLUGINS": "", "VLLM_USE_FLASHINFER_SAMPLER": "0", "HF_HUB_OFFLINE": "1"}
        environment.pop("VOLTA_PLATFORM", None)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._argv, stdout=log, stderr=log, env=environment, cwd=tempfile.mkdtemp(), start_new_session=True
            )
        begun = time.monotonic()
        try:
            self._wait(begun)
        except BaseException:
            end(self._process, signal.SIGKILL)
            raise
        self.seconds = time.monotonic() - begun
        return self

    def __exit__(self, *_):
        end(self._process, signal.SIGTERM)

    def _wait(self, begun):
        lines, phase, since = LogFollower(self._log), Phase.importing, begun
        while not self._answers():
            now = time.monotonic()
            if self._process.poll() is not None or now - begun > START_S:
                raise RuntimeError(f"stock vLLM did not start: {self._log.read_text(errors='replace')[-2000:]}")
            for line in lines.new_lines():
                if later := later_phase(phase, line):
                    self.timings[phase.value], phase, since = round(now - since, 1), later, now
            time.sleep(0.1)
        self.timings[phase.value] = round(time.monotonic() - since, 1)

    def _answers(self):
        try:
            return bool(self.client.complete([300, 301], 1))
        except OSError:
            return False


def stock_argv(argv, port, family):
    """Our command line without what is ours, on the routes that upstream shares with us."""
    kept, skip = [], False
    for word in argv:
        if skip:
            skip = False
        elif word in OURS:
            skip = True
        else:
            kept.append(word)
    recurrent = ["--gdn-prefill-backend", "triton"] if family in {*DRAFT_LAYERS, "qwen3_5_text"} else []
    return [*kept, "--port", str(port), "--attention-backend", "TRITON_ATTN", *recurrent]
