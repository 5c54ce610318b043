"""The GiB that the proof keeps of vLLM's own log: these lines are still what vLLM writes, and what is read of them."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.gpu.serving.one import MEMORY, memory

LOG = """\
(Worker_TP0 pid=1) INFO 11-30 10:00:00 [model_runner.py:425] Model loading took 1.25 GiB memory and 2.0 seconds
(Worker_TP1 pid=2) INFO 11-30 10:00:00 [model_runner.py:425] Model loading took 1.25 GiB memory and 2.1 seconds
(Worker_TP0 pid=1) INFO 11-30 10:00:01 [gpu_worker.py:657] Initial free memory 138.7 GiB, reserved 2.0 GiB memory for KV
(Worker_TP0 pid=1) INFO 11-30 10:00:09 [model_runner.py:1128] Graph capturing finished in 6 secs, took 0.31 GiB
(Worker_TP1 pid=2) INFO 11-30 10:00:09 [model_runner.py:1128] Graph capturing finished in 6 secs, took 0.29 GiB
"""


def test_each_number_that_differs_is_kept() -> None:
    assert memory(LOG) == {"weights": [1.25], "graphs": [0.29, 0.31], "free_at_first": [138.7]}


@pytest.mark.parametrize("what", MEMORY)
def test_upstream_writes_such_a_line(what: str) -> None:
    words = re.match(r"[A-Za-z ]+", MEMORY[what])
    upstream = find_spec("vllm")
    assert words is not None
    assert upstream is not None
    assert upstream.origin is not None
    worker = Path(upstream.origin).parent / "v1" / "worker"
    assert any(words[0] in (worker / file).read_text() for file in ("gpu/model_runner.py", "gpu_worker.py"))
