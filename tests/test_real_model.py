"""The main job: a real model served from its recipe, through the real engine, asked by the official client."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from openai import OpenAI

sys.path.insert(0, str(Path(__file__).parent / "standin"))
import harness

QUESTION = [{"role": "user", "content": "What is the capital of France? Answer in English."}]
pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A served SmolLM2: its port, run folder and process; ended by SIGINT, as by Ctrl-C."""
    runs, port = tmp_path_factory.mktemp("runs"), harness.unused_port()
    command = [sys.executable, "-m", "toolkit.serve", "+recipe=smollm2_cpu", f"server.port={port}", f"runs={runs}"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=attentive,  # noqa: PLW1509
    ) as process:
        try:
            harness.until(lambda: process.poll() is not None or ready(runs), 800.0)
            assert process.poll() is None, process.stderr.read()
            yield port, next(runs.iterdir()), process
        finally:
            process.kill()


def attentive() -> None:
    """A background shell ignores SIGINT, and what it starts inherits that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def ready(runs: Path) -> bool:
    found = list(runs.glob("*/state.json"))
    return bool(found) and json.loads(found[0].read_text())["state"] == "ready"


def receipt_of(server):
    return json.loads((server[1] / "receipt.json").read_text())


@pytest.fixture(scope="module")
def client(server):
    return OpenAI(base_url=f"http://127.0.0.1:{server[0]}/v1", api_key="none", timeout=300)


def test_answers_a_chat_request(client):
    answer = client.chat.completions.create(model="smollm2", messages=QUESTION, temperature=0, max_tokens=24)
    assert "Paris" in answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"


def test_the_official_client_streams(client):
    stream = client.chat.completions.create(
        model="smollm2", messages=QUESTION, temperature=0, max_tokens=24, stream=True
    )
    pieces = [chunk.choices[0].delta.content for chunk in stream if chunk.choices and chunk.choices[0].delta.content]
    assert len(pieces) > 3, "an answer in one piece is no stream"
    assert "Paris" in "".join(pieces)


def test_the_cache_is_fp8_and_as_large_as_planned(server):
    log = (server[1] / "serve.log").read_text()
    receipt = json.loads((server[1] / "receipt.json").read_text())
    assert "--kv-cache-dtype fp8_e4m3" in " ".join(receipt["argv"])
    assert "Using fp8_e4m3 data type to store kv cache" in log
    reported = re.search(
        r"KV cache size: ([\d,]+) tokens, Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x", log
    )
    assert int(reported[1].replace(",", "")) == receipt["plan"]["capacity"]["tokens"]
    assert float(reported[2]) == round(receipt["plan"]["capacity"]["concurrency"], 2)
    compared = receipt["capacity"]
    assert (compared["reported"]["tokens"], compared["blocks"]) == (23_296, receipt["plan"]["capacity"]["blocks"])
    assert (compared["blocks_apart"], receipt["findings"]) == (0, [])


def test_the_workers_report_is_of_the_first_answer_at_the_earliest(server):
    harness.until(lambda: (server[1] / "receipt.json").exists() and receipt_of(server)["workers"])
    (worker,) = receipt_of(server)["workers"]
    assert worker["requests"] >= 1
    assert not worker["ended"]


def test_another_shell_sees_it(server):
    command = [sys.executable, "-m", "toolkit.status", f"runs={server[1].parent}", "output=json"]
    status = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert [(run["run"], run["state"]) for run in status["runs"]] == [(server[1].name, "ready")]


def test_ends_with_ctrl_c_and_leaves_nothing(server):
    port, run, process = server
    everyone = harness.marked(run)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert re.search("^answer: .*Paris", out, re.MULTILINE)
    assert f"http://127.0.0.1:{port}/v1" in out
    assert harness.gone(everyone)
    assert not harness.listens(port)
    receipt = receipt_of(server)
    assert "Paris" in receipt["answer"]["text"]
    (worker,) = receipt["workers"]
    assert worker["requests"] == 2, "serve's own question and one of this file's; a third doubles nothing"
