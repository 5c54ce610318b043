"""The verb as a user meets it: real composition, real plan, the stand-in in the engine's place."""

import bisect
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from toolkit.checkpoint.sources import fetch
from toolkit.config.schema.checkpoint import CheckpointConfig, CheckpointSource, SourceKind
from toolkit.planning.worker_report import AttentionLayer, ImportRoot, Runtime, WorkerReport
from toolkit.views.base import index_sha256
from toolkit.views.scales.names import scale_names
from toolkit.views.scales.pack import SCALE_FILE, make_pack, pack_files

sys.path.insert(0, str(Path(__file__).parent / "standin"))
import harness

ANSWER = "The capital of France is Paris."


class Serve:
    """One `python -m toolkit.serve`, with the stand-in as its engine."""

    def __init__(self, folder: Path, *arguments: str, env: dict[str, str] | None = None, **behaviour: object) -> None:
        self.runs = folder / "runs"
        self.port = harness.unused_port()
        self.common = [
            f"engine.python={os.path.relpath(harness.INTERPRETER)}",
            f"+engine.environment.STANDIN={harness.behave(folder, **behaviour)}",
            f"+engine.environment.STANDIN_PYTHON={sys.executable}",
            f"server.port={self.port}",
            f"runs={self.runs}",
        ]
        command = [sys.executable, "-m", "toolkit.serve", *self.common, *arguments]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, env={**os.environ, **(env or {})}, stdout=pipe, stderr=pipe, text=True)

    @property
    def run(self) -> Path:
        return next(iter(self.runs.iterdir()))

    @property
    def state(self) -> dict:
        return json.loads((self.run / "state.json").read_text())

    @property
    def receipt(self) -> dict:
        return json.loads((self.run / "receipt.json").read_text())

    def reaches(self, state: str) -> bool:
        found = list(self.runs.glob("*/state.json")) if self.runs.exists() else []
        return bool(found) and json.loads(found[0].read_text())["state"] == state

    def wait_for(self, state: str) -> None:
        harness.until(lambda: self.reaches(state), 60.0)

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err

    def nothing_is_left(self) -> bool:
        return harness.marked(self.run) == [] and not harness.listens(self.port)


@pytest.fixture
def serve(tmp_path: Path):
    started: list[Serve] = []

    def begin(*arguments: str, **options: object) -> Serve:
        folder = tmp_path / str(len(started))
        folder.mkdir()
        started.append(Serve(folder, *arguments, **options))
        return started[-1]

    yield begin
    for one in started:
        harness.end(one.process, one.runs)


TINY = "+recipe=tiny_random_cpu"


def test_until_answered_prints_the_answer_and_leaves_a_receipt(serve):
    one = serve(TINY, "until=answered")
    code, out, err = one.end()
    assert (code, err.count("Traceback")) == (0, 0), err
    lines = out.splitlines()
    assert lines[0] == "question: What is the capital of France? Answer in English."
    assert lines[1] == f"answer:   {ANSWER}"
    assert lines[2] == f"tiny-random is served at http://127.0.0.1:{one.port}/v1"
    assert lines[3].startswith(f"curl -s http://127.0.0.1:{one.port}/v1/chat/completions ")
    assert one.nothing_is_left()
    assert {path.name for path in one.run.iterdir()} == {
        "serve.log", "state.json", "receipt.json", "config.yaml", "workers",
    }  # fmt: skip
    assert one.receipt["answer"]["text"] == ANSWER
    assert one.receipt["config"]["server"]["port"] == one.port
    assert one.receipt["plan"]["recipe"] == "tiny_random_cpu"


def test_the_printed_curl_line_works(serve):
    one = serve(TINY)
    lines = [one.process.stdout.readline() for _ in range(5)]
    curl = next(line for line in lines if line.startswith("curl"))
    done = subprocess.run(curl, shell=True, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["choices"][0]["message"]["content"] == ANSWER
    one.process.send_signal(signal.SIGINT)
    assert one.end()[0] == 130
    assert one.nothing_is_left()


def test_json_is_one_document(serve):
    code, out, _ = serve(TINY, "until=ready", "output=json").end()
    document = json.loads(out)
    assert (code, document["result"], document["answer"]) == (0, "answered", ANSWER)
    assert document["timings"]["planning"] > 0
    assert Path(document["receipt"]).exists()


def test_a_failure_is_one_document_too_and_an_error_without_traceback(serve):
    one = serve(TINY, "output=json", exit=1, stderr=["RuntimeError: No CUDA GPUs are available"])
    code, out, err = one.end()
    document = json.loads(out)
    assert (code, document["result"], document["exit_code"]) == (6, "failed", 6)
    assert document["error"]["what"] == "the engine died while importing: the engine sees no GPU"
    assert "error: the engine died while importing: the engine sees no GPU\n" in err
    assert "  | RuntimeError: No CUDA GPUs are available\n" in err
    assert "Traceback" not in err
    assert one.receipt["outcome"]["result"] == "failed"
    assert one.nothing_is_left()


@pytest.mark.parametrize("state", ["starting", "ready"])
@pytest.mark.parametrize("fatal", [signal.SIGKILL, signal.SIGTERM])
def test_killing_serve_leaves_no_engine_process(serve, state, fatal):
    extra = {"ready": "never"} if state == "starting" else {}
    one = serve(TINY, children=["session", "daemon", "clean"], **extra)
    one.wait_for(state)
    helpers = harness.helper_pids(one.run / "serve.log", 3)
    recorded = one.state
    one.process.send_signal(fatal)
    code, _, _ = one.end()
    assert code == (-9 if fatal == signal.SIGKILL else 143)
    harness.until(lambda: harness.gone([*helpers, recorded["engine"]["pid"], recorded["warden"]["pid"]]))
    harness.until(one.nothing_is_left)
    assert one.state["state"] == (state if fatal == signal.SIGKILL else "stopped")


def test_a_second_ctrl_c_kills_at_once(serve):
    one = serve(TINY, "engine.stop_timeout_s=600", ignore_term=True, children=["session"])
    one.wait_for("ready")
    one.process.send_signal(signal.SIGINT)
    one.wait_for("stopping")
    one.process.send_signal(signal.SIGINT)
    code, _, err = one.end()
    assert code == 130
    assert "note: killing the engine now\n" in err
    assert one.nothing_is_left()


def test_a_refused_plan_lists_every_finding_and_starts_nothing(serve):
    one = serve(TINY, "kv=fp8_e4m3", "kv.dtype=fp8", "limits.tensor_parallel=3")
    code, out, err = one.end()
    assert (code, out) == (3, "")
    assert "rules refuse this plan\n" in err
    assert "rejected: kv-dtype-ambiguous" in err
    assert "rejected: heads-not-divisible" in err
    assert not one.runs.exists()


def test_dry_run_prints_the_plan_and_starts_nothing(serve):
    one = serve(TINY, "dry_run=true", "output=json")
    code, out, _ = one.end()
    assert code == 0
    assert json.loads(out)["argv"][0] == os.path.relpath(harness.INTERPRETER)
    assert not one.runs.exists()


def test_an_open_address_needs_a_key(serve):
    code, _, err = serve(TINY, "server.host=0.0.0.0").end()
    assert code == 3
    assert "server.api_key_file" in err


def test_with_a_key_the_server_is_reached_and_the_key_is_nowhere(serve, tmp_path):
    key = tmp_path / "key"
    key.write_text("planted-server-key-123\n")
    key.chmod(0o600)
    env = {"HF_TOKEN": "planted-hub-token-456", "PYTHONPATH": str(Path.cwd())}
    one = serve(TINY, "until=answered", "server.host=0.0.0.0", f"server.api_key_file={key}", env=env, key_required=True)
    code, out, err = one.end()
    assert code == 0, err
    written = out + err + "".join(path.read_text() for path in one.run.rglob("*.*"))
    assert "planted" not in written
    assert "not passed to the engine: " in err
    assert "PYTHONPATH" in err
    assert f"$(head -n 1 {key})" in out


def test_a_receipt_starts_the_same_again_and_says_what_differs(serve):
    first = serve(TINY, "until=answered", "limits.max_num_seqs=3", "question=Who are you?")
    assert first.end()[0] == 0
    recorded = first.run / "receipt.json"
    again = serve(f"receipt={recorded}", "until=answered", "output=json")
    code, out, err = again.end()
    assert code == 0, err
    document = json.loads(out)
    assert document["question"] == "Who are you?"
    assert again.receipt["config"]["limits"]["max_num_seqs"] == 3
    changed = {(found["section"], found["name"]) for found in document["differences"]}
    assert changed == {("argument", "--port"), ("environment", "STANDIN")}
    assert f"note: differs from the receipt: argument --port: {first.port} -> {again.port}\n" in err


def test_a_view_is_made_and_served(serve, tmp_path):
    edit = "[{file: generation_config.json, op: add, path: /temperature, value: 0.5}]"
    one = serve(TINY, "until=answered", f"views.edits={edit}", f"views.root={tmp_path / 'views'}")
    code, _, err = one.end()
    assert code == 0, err
    argv = one.receipt["argv"]
    view = Path(argv[argv.index("--model") + 1])
    assert view.is_relative_to(tmp_path / "views")
    assert json.loads((view / "generation_config.json").read_text())["temperature"] == 0.5
    assert one.receipt["files"]["view_digest"]
    assert one.receipt["plan"]["view"]["path"] == str(view)


class Scaled:
    """The tiny model with a scale pack, and what its workers report."""

    def __init__(self, folder: Path) -> None:
        source = CheckpointSource(SourceKind.random)
        facts = fetch(CheckpointConfig("tiny-random", source))
        self.scales = {name: 0.5 + n / 8 for n, name in enumerate(sorted(scale_names(facts.tensors).target))}
        pack = make_pack("measured", index_sha256(facts), self.scales, {}, SCALE_FILE)
        for name, data in pack_files(pack).items():
            (folder / name).write_bytes(data)
        self.options = ["kv=fp8_e4m3", f"overlay.path={folder}", f"views.root={folder / 'store'}"]

    def report(self, **changes: object) -> dict:
        layers = []
        for number in range(len(self.scales) // 2):
            k, v = (self.scales[f"model.layers.{number}.self_attn.{kind}_scale"] for kind in "kv")
            name = f"model.layers.{number}.self_attn.attn"
            layers.append(AttentionLayer(name, "Impl", "fp8_e4m3", (k,), (v,), k, v))
        layers[-1] = replace(layers[-1], **changes)
        imports = (ImportRoot(str(Path(os.__file__).parent), ("os",), 1),)
        runtime = Runtime("vllm.platforms.cpu.CpuPlatform", "standin", "", (), (), "NONE", "NONE", (), None)
        versions = {"python": "3.11.7", "vllm": "0.32.0"}  # as the stand-in describes its interpreter
        own = {"layers": tuple(layers), "imports": imports, "requests": 1, "runtime": runtime}
        return WorkerReport(0, 1, 1, "cpu", versions, {}, **own).to_data()


def test_the_workers_scales_are_compared_and_kept_in_the_receipt(serve, tmp_path):
    scaled = Scaled(tmp_path)
    one = serve(TINY, "until=answered", *scaled.options, workers=[scaled.report()])
    code, _, err = one.end()
    assert code == 0, err
    assert one.receipt["workers"] == json.loads(json.dumps([scaled.report()]))


def test_another_scale_than_the_views_stops_the_engine(serve, tmp_path):
    scaled = Scaled(tmp_path)
    one = serve(TINY, *scaled.options, workers=[scaled.report(v_scale=(1.0,))])
    code, out, err = one.end()
    assert (code, out) == (5, "")
    last = max(scaled.scales.values())
    assert f"error: model.layers.1.self_attn.attn: uses 1 and {last} as its v_scale, the view's is {last}" in err
    assert one.receipt["outcome"]["exit_code"] == 5
    assert one.receipt["workers"][0]["layers"][1]["v_scale"] == [1.0]
    assert one.nothing_is_left()


def test_every_difference_of_a_worker_is_a_line_and_a_finding(serve, tmp_path):
    changed = Scaled(tmp_path).report()
    changed["runtime"] = {**changed["runtime"], "graphs": "FULL", "kv_blocks": 3}
    code, _, err = (one := serve(TINY, "until=answered", workers=[changed])).end()
    assert code == 0, err
    rules = {finding["rule"] for finding in one.receipt["findings"]}
    differ = {"workers-graphs", "workers-kv-blocks", "workers-switches", "workers-attention"}
    assert differ <= rules
    assert (
        "note: rank 0: has CUDA graph mode FULL, and NONE was planned (look for the reason in the engine's log" in err
    )
    assert "note: rank 0: has 3 KV blocks, and " in err
    assert one.receipt["plan"]["workers"]["graphs"] == {"compilation": "NONE", "mode": "NONE", "sizes": []}


def test_another_version_or_fewer_workers_than_planned_end_the_run(serve, tmp_path):
    other = Scaled(tmp_path).report() | {"versions": {"python": "3.11.7", "vllm": "0.31.0"}, "rank": 0, "world_size": 2}
    code, out, err = (one := serve(TINY, workers=[other])).end()
    assert (code, out) == (5, "")
    assert "error: rank 1: left no report" in err
    assert "rejected: rank 0: runs vllm 0.31.0, and 0.32.0 was planned" in err
    refused = {finding["rule"] for finding in one.receipt["findings"] if finding["severity"] == "refuse"}
    assert refused == {"workers-missing", "workers-version"}
    assert one.nothing_is_left()


def test_scales_are_not_taken_on_trust(serve, tmp_path):
    code, _, err = serve(TINY, *Scaled(tmp_path).options, workers=[]).end()
    assert code == 5
    assert "error: rank 0: left no report; see that volta-toolkit is installed beside vLLM" in err


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["receipt=/nowhere/receipt.json"], 2, "error: the receipt cannot be read"),
        (["receipt=/nowhere/receipt.json", TINY], 2, "error: a receipt and a recipe were both given"),
        ([TINY, "launcher=docker"], 3, "error: 1 rule refuses this plan"),
        ([TINY, "until=forever"], 2, "error: "),
        ([TINY, "engine.python=/nowhere/python"], 3, "rejected: interpreter-silent (engine.python): "),
    ],
)
def test_mistakes_are_one_clear_error(serve, arguments, code, line):
    found, out, err = serve(*arguments).end()
    assert (found, out) == (code, "")
    assert line in err
    assert "Traceback" not in err


def test_leftovers_of_a_killed_run_are_cleared_by_the_next_start(serve):
    dead = serve(TINY, children=["session"])
    dead.wait_for("ready")
    helpers = harness.helper_pids(dead.run / "serve.log", 1)
    warden = dead.state["warden"]["pid"]
    os.kill(dead.process.pid, signal.SIGSTOP)  # so that it cannot sweep after its warden
    os.kill(warden, signal.SIGKILL)
    os.kill(dead.process.pid, signal.SIGKILL)
    dead.process.wait()
    assert not harness.gone(helpers)
    code, _, err = serve(TINY, "until=answered").end()
    assert code == 0
    assert f"note: killed what the dead run {dead.run.name} had left\n" in err
    assert harness.gone(helpers)


def test_the_timings_of_a_run_fit_into_its_time(serve):
    one = serve(TINY, "until=answered")
    started = time.monotonic()
    code, _, err = one.end()
    whole = time.monotonic() - started
    assert code == 0
    timings = one.receipt["timings"]
    assert set(timings) >= {"interpreter and imports", "planning", "importing", "stopping"}
    assert sum(timings.values()) <= whole + 0.5, err


@pytest.mark.engine
@pytest.mark.timeout(600)
def test_the_real_engine_leaves_nothing_when_serve_is_killed(tmp_path):
    runs, port = tmp_path / "runs", harness.unused_port()
    command = [sys.executable, "-m", "toolkit.serve", TINY, f"server.port={port}", f"runs={runs}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        harness.until(lambda: process.poll() is not None or _state(runs) == "ready", 500.0)
        assert process.poll() is None, process.stderr.read()
        run = next(runs.iterdir())
        everyone = harness.marked(run)
        titles = sorted(harness.proc.title(pid) for pid in everyone)
        assert [title for title in titles if title.startswith("VLLM::")] == ["VLLM::EngineCore", "VLLM::Worker"]
        process.kill()
        harness.until(lambda: harness.gone(everyone))
        harness.until(lambda: not harness.listens(port))
        assert harness.marked(run) == []
    finally:
        process.kill()
        process.communicate()


@pytest.mark.engine
@pytest.mark.timeout(600)
def test_the_real_engine_is_stopped_where_a_worker_imports_from_outside_the_plan(tmp_path):
    shadow, users = tmp_path / "shadow", tmp_path / ".local/lib/python3.11/site-packages"
    shadow.mkdir()
    users.mkdir(parents=True)
    shutil.copy(bisect.__file__, shadow / "bisect.py")  # a stray copy of a module that everything imports
    (users / "sitecustomize.py").touch()  # Python imports it by itself
    runs, port = tmp_path / "runs", harness.unused_port()
    options = [f"server.port={port}", f"runs={runs}", "engine.inherit=[PATH,HOME,PYTHONPATH]"]
    command = [sys.executable, "-m", "toolkit.serve", TINY, *options]
    env = {**os.environ, "PYTHONPATH": f"{shadow}:{users}"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 5, done.stderr
    for module, folder in (("bisect", shadow), ("sitecustomize", users)):
        said = f"rank 0: imported {module} from {folder}, outside the planned environment: PYTHONPATH names it; "
        assert said + "take PYTHONPATH out of engine.inherit" in done.stderr
    assert harness.marked(next(runs.iterdir())) == []


def _state(runs: Path) -> str:
    found = list(runs.glob("*/state.json"))
    return json.loads(found[0].read_text())["state"] if found else ""
