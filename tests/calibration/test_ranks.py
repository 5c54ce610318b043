"""Several ranks, each a process with heads of its own, measure one set of prompts into one folder."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from toolkit.calibration import collect
from toolkit.calibration.collect import SEGMENTS, Collection, read_measurements
from toolkit.calibration.drive import Sizes
from toolkit.calibration.prompts import Prompt, PromptSet
from toolkit.calibration.result import measured_scales
from toolkit.checkpoint.progress import Silent
from toolkit.errors import CheckFailedError
from toolkit.views.scales.float32 import scale_of
from toolkit.views.scales.names import ScaleNames

PROGRAM = Path(__file__).with_name("rank_process.py")
NAMES = ScaleNames(
    "model", frozenset(f"model.layers.{n}.self_attn.{kind}_scale" for n in range(2) for kind in "kv"), frozenset()
)
PROMPTS = ([[1.0, 2.0, 3.0, -4.0]], [[0.5, 9.0, 0.25, 1.0], [1.0, 1.0, 1.0, 1.0]], [[7.0, 0.5, 0.5, 0.5]], [[1.0] * 4])
"""The keys of each token's four heads; every second prompt is of the second half."""
WARM_UP = [[1e4, 1e4, 1e4, 1e4]]


class Engine:
    """Ranks that make each step together; what Collection calls."""

    address = SimpleNamespace(model="m", url="http://127.0.0.1:1")

    def __init__(self, folder: Path, ranks: int, running: int, delays: tuple[float, ...]) -> None:
        folder.mkdir()
        pipe = subprocess.PIPE
        self.processes = [
            subprocess.Popen(
                [sys.executable, str(PROGRAM), str(folder), str(rank), str(ranks), str(delays[rank])],
                stdin=pipe,
                stdout=pipe,
                text=True,
            )
            for rank in range(running)
        ]
        for process in self.processes:
            assert process.stdout.readline() == "ready\n"
        self.step(WARM_UP)

    def step(self, keys: list[list[float]]) -> None:
        for process in self.processes:
            process.stdin.write(json.dumps(keys) + "\n")
            process.stdin.flush()
        for process in self.processes:  # no rank finishes a step that another has not begun: they exchange sums in it
            assert process.stdout.readline() == "begun\n"

    def post(self, path, body, timeout_s):
        text = body["prompt"]
        self.step(json.loads(text) if text.startswith("[") else [[1e3] * 4])
        return SimpleNamespace(status=200, json=lambda: {"usage": {"prompt_tokens": 1, "completion_tokens": 1}})


@pytest.fixture
def engine(tmp_path):
    started: list[Engine] = []

    def start(ranks: int, running: int | None = None, delays: tuple[float, ...] = (0.0,) * 4) -> Engine:
        started.append(Engine(tmp_path / "measurements", ranks, running or ranks, delays))
        return started[-1]

    yield start
    for one in started:
        for process in one.processes:
            process.stdin.close()
            process.wait(10)
            process.stdout.close()


def measure(engine, tmp_path):
    prompts = PromptSet("four", "0" * 64, tuple(Prompt(json.dumps(keys)) for keys in PROMPTS))
    folder = SimpleNamespace(measurements=tmp_path / "measurements")
    Collection(prompts, Sizes(1, 100, 1), folder, Silent())(engine, threading.Event())
    halves = [read_measurements(folder.measurements, segment) for segment in SEGMENTS]
    return halves, {scale.name: scale for scale in measured_scales(halves, NAMES, drafts=False)}


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_any_number_of_ranks_gives_the_same_scales(engine, tmp_path, ranks):
    """The largest key is 9 in one head, in the second half; warm-up and what ends a segment are larger by far."""
    halves, found = measure(engine(ranks), tmp_path)
    assert [[one.rank for one in half] for half in halves] == [list(range(ranks))] * 2
    assert len({one.pid for half in halves for one in half}) == ranks
    key, value = found["model.layers.0.self_attn.k_scale"], found["model.layers.1.self_attn.v_scale"]
    assert (key.scale, value.scale) == (scale_of(9.0), scale_of(9.0 * 2 / 4))
    assert [half.largest for half in key.halves] == [7.0, 9.0]
    assert key.whole.count == 4 * sum(map(len, PROMPTS)), "each head of each token once"


def test_the_slowest_rank_is_waited_for(engine, tmp_path):
    _, found = measure(engine(2, delays=(0.0, 0.4)), tmp_path)
    assert found["model.layers.0.self_attn.k_scale"].scale == scale_of(9.0)


def test_a_rank_that_writes_nothing_is_named(engine, tmp_path, monkeypatch):
    """Its heads would be missing from the maxima without a word."""
    monkeypatch.setattr(collect, "WRITTEN_S", 1.0)
    with pytest.raises(CheckFailedError) as caught:
        measure(engine(3, running=2), tmp_path)
    assert caught.value.what == "the workers of ranks 2 have not measured anything"
