"""Every edge of the state machine, through the real machinery: stopped, starting, ready, stopping, stopped."""

import os
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import asdict
from pathlib import Path

import pytest
from harness import gone, helper_pids, marked, standin_argv

from toolkit.config.schema.verbs import Until
from toolkit.errors import ConfigurationError, EngineError
from toolkit.planning.plan import Capacity
from toolkit.planning.worker_report import Runtime
from toolkit.runs.receipt import Outcome
from toolkit.runs.state import read_state

ALL_HELPERS = ["session", "daemon", "clean"]


def fails(run) -> EngineError:
    with pytest.raises(EngineError) as caught:
        run.carry_out()
    run.assert_nothing_left()
    assert run.receipt["outcome"] == {"result": "failed", "exit_code": 6, "reason": caught.value.what}
    assert run.state["reason"] == caught.value.what
    return caught.value


def test_until_answered_ends_well(case):
    run = case(lines=3, children=ALL_HELPERS)
    assert run.carry_out() == Outcome("stopped", 0, "until=answered")
    assert [answer.text for answer in run.answers] == ["The capital of France is Paris."]
    assert run.reporter.phases[0] == "importing"
    assert run.reporter.phases[-2:] == ["waiting for the first answer", "stopping"]
    run.assert_nothing_left()
    receipt = run.receipt
    assert receipt["answer"]["text"] == "The capital of France is Paris."
    assert receipt["outcome"] == {"result": "stopped", "exit_code": 0, "reason": "until=answered"}
    assert receipt["packages"]["psutil"]["version"]
    assert {"importing", "waiting for the first answer", "stopping"} <= receipt["timings"].keys()


PLANNED = Capacity(128, 1_474_560, 728, 16, 93_184, 45.5)
REPORT = "INFO CPU KV cache size: {} tokens, Maximum concurrency for 2,048 tokens per request: {}x"


def test_a_cache_as_planned_is_recorded_without_a_finding(case):
    run = case(capacity=PLANNED, lines=3, report=[REPORT.format("93,184", "45.50")])
    run.carry_out()
    assert run.receipt["capacity"] == {
        "reported": {"tokens": 93_184, "max_model_len": 2048, "concurrency": 45.5, "available_gib": None},
        "blocks": 728,
        "blocks_apart": 0,
    }
    assert (run.receipt["findings"], run.reporter.notices) == ([], [])


def test_a_cache_that_is_not_as_planned_is_a_finding_and_a_line(case):
    run = case(capacity=PLANNED, report=[REPORT.format("92,800", "45.31")])
    run.carry_out()
    assert run.receipt["capacity"]["blocks_apart"] == -3
    (found,) = run.receipt["findings"]
    assert (found["rule"], found["severity"], found["where"]) == ("capacity-differs", "warn", "the engine's log")
    assert "3 blocks fewer than planned (93,184 tokens, 728 blocks)" in found["message"]
    assert [line for line in run.reporter.notices if found["message"] in line and found["fix"] in line]


def test_an_engine_without_a_report_is_recorded_as_such(case):
    run = case(capacity=PLANNED)
    run.carry_out()
    assert run.receipt["capacity"] == {"reported": None, "blocks": None, "blocks_apart": None}
    assert [finding["rule"] for finding in run.receipt["findings"]] == ["capacity-not-reported"]
    assert run.reporter.notices == []


def test_a_run_that_never_answers_has_no_comparison(case):
    run = case(capacity=PLANNED, exit=3)
    fails(run)
    assert (run.receipt["capacity"], run.receipt["findings"]) == (None, [])


def worker(**changes: object) -> dict:
    imports = [{"folder": str(Path(os.__file__).parent), "modules": ["os"], "count": 1}]
    own = {"schema": 1, "rank": 0, "world_size": 1, "pid": 1, "engine": "cpu", "versions": {}, "paths": {}}
    runtime = Runtime("vllm.platforms.cpu.CpuPlatform", "standin", "", (), (), "NONE", "NONE", (), None)
    return {**own, "runtime": asdict(runtime), "imports": imports, "requests": 1, **changes}


def test_the_receipt_keeps_what_workers_said_last_and_what_they_had_not_said_before(case):
    late = worker(requests=4, ended=True)
    late["imports"] = [*late["imports"], {"folder": "/elsewhere", "modules": ["regex"], "count": 1}]
    run = case(workers=[worker()], last=[late])
    run.carry_out()
    assert (run.receipt["workers"][0]["requests"], run.receipt["workers"][0]["ended"]) == (4, True)
    (found,) = [each for each in run.receipt["findings"] if each["rule"] == "workers-imports"]
    assert found["message"].startswith("imported regex from /elsewhere, outside the planned environment")
    assert [line for line in run.reporter.notices if line.startswith("rank 0: imported regex from /elsewhere")]


def test_a_last_report_that_says_nothing_new_adds_nothing(case):
    run = case(workers=[worker()], last=[worker(requests=2)])
    run.carry_out()
    assert [each["rule"] for each in run.receipt["findings"]] == ["capacity-not-reported"]
    assert (run.receipt["workers"][0]["requests"], run.reporter.notices) == (2, [])


def test_the_state_is_readable_from_outside_while_it_moves(case):
    run = case(Until.stopped)
    seen = []

    def look() -> bool:
        state = read_state(run.folder.state)
        if state is not None and (not seen or seen[-1] is not state.state):
            seen.append(state.state)
        return state is not None and state.state.value == "ready" and state.engine.alive and state.warden.alive

    run.signal_when(look, signal.SIGTERM)
    run.carry_out()
    assert [state.value for state in seen][-2:] == ["starting", "ready"]
    run.assert_nothing_left()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_while_serving_stops_it_with_128_plus_n(case, signum):
    run = case(Until.stopped, children=["session"])
    run.signal_when(run.reporter.is_ready.is_set, signum)
    name = signal.Signals(signum).name
    assert run.carry_out() == Outcome("interrupted", 128 + signum, f"stopped by {name}")
    run.assert_nothing_left()


def test_a_signal_while_starting_stops_it(case):
    run = case(ready="never", children=ALL_HELPERS)
    helpers = []
    run.signal_when(lambda: helpers.extend(helper_pids(run.folder.log, 3)) or True, signal.SIGINT)
    assert run.carry_out().exit_code == 130
    assert gone(helpers)
    assert run.answers == []
    run.assert_nothing_left()


def test_an_engine_that_hears_nothing_while_it_starts_is_killed_long_before_the_grace(case):
    run = case(ready="never", grace_s=600.0, ignore_term=True, children=["session"])
    run.signal_when(lambda: bool(helper_pids(run.folder.log, 1)), signal.SIGINT)
    begun = time.monotonic()
    assert run.carry_out().exit_code == 130
    assert time.monotonic() - begun < 60
    run.assert_nothing_left()


def test_a_second_signal_kills_now(case):
    run = case(Until.stopped, grace_s=600.0, ignore_term=True, children=ALL_HELPERS)
    run.signal_when(run.reporter.is_ready.is_set, signal.SIGINT)
    run.signal_when(lambda: "stopping" in run.reporter.phases, signal.SIGINT)
    assert run.carry_out().exit_code == 130
    assert run.reporter.notices == ["killing the engine now"]
    run.assert_nothing_left()


def test_an_engine_that_ignores_sigterm_and_hangs_is_killed_after_the_grace(case):
    run = case(Until.stopped, grace_s=0.3, ignore_term=True, then="hang")
    run.signal_when(run.reporter.is_ready.is_set, signal.SIGTERM)
    assert run.carry_out().exit_code == 143
    run.assert_nothing_left()


def test_an_engine_that_dies_at_start_fails_at_once_with_its_log_and_cause(case):
    lines = [f"line {number}" for number in range(60)] + ["torch.OutOfMemoryError: CUDA out of memory."]
    run = case(start_s=600.0, stderr=lines, exit=1, children=["session"])
    error = fails(run)
    assert error.what == "the engine died while importing: the GPU's memory does not suffice"
    assert error.why == "it ended with exit code 1; torch.OutOfMemoryError: CUDA out of memory."
    assert len(run.reporter.ended) == 40
    assert run.reporter.ended[-1] in (lines[-1], *run.folder.log.read_text().splitlines()[-2:])


def test_an_engine_killed_from_outside_is_explained(case):
    assert fails(case(exit=-signal.SIGKILL)).what == (
        "the engine died while importing: killed by signal 9; nearly always that is the kernel's out-of-memory killer"
    )


def test_an_unknown_death_points_at_the_log(case):
    error = fails(case(exit=3))
    assert error.what == "the engine died while importing: it ended with exit code 3"
    assert error.where.endswith("serve.log")


def test_an_engine_that_dies_while_serving_ends_the_run(case):
    run = case(Until.stopped, children=["daemon"])
    run.when(run.reporter.is_ready.is_set, lambda: os.kill(run.state["engine"]["pid"], signal.SIGSEGV))
    error = fails(run)
    assert error.what == "the engine died while serving: a native library crashed"
    assert error.why == "it was killed by SIGSEGV; signal 11"


def test_a_start_without_progress_is_given_up(case):
    error = fails(case(start_s=2.0, ready="never"))
    assert error.what == "the engine made no progress for 2 s while opening the server, and was stopped"


def test_a_start_that_loops_for_ever_is_given_up(case):
    error = fails(case(start_s=0.5, ready="spin"))
    assert error.what.startswith("the engine made no progress for 0.5 s while ")


def test_a_hanging_first_answer_is_given_up(case):
    error = fails(case(start_s=2.0, chat="hang"))
    assert error.what == "the engine made no progress for 2 s while waiting for the first answer, and was stopped"


def test_slow_but_progressing_is_waited_for(case):
    assert case(start_s=2.0, lines=30, every_s=0.1).carry_out().exit_code == 0


def test_a_first_answer_that_takes_long_but_computes_is_waited_for(case):
    assert case(start_s=2.0, chat="busy", work_s=3.0).carry_out().exit_code == 0


@pytest.mark.parametrize(
    ("behaviour", "what"),
    [
        ({"text": "!" * 30}, "the model's output is degenerate: the answer is one character, '!', 30 times"),
        ({"logprob": None}, "the model's output is degenerate: 1 of 1 log-probabilities are not finite numbers"),
        ({"model": "other"}, "a different server answers: m is not among its models"),
        ({"chat": "close"}, "the server is up but does not answer"),
    ],
)
def test_what_answers_wrongly_is_stopped_again(case, behaviour, what):
    assert fails(case(Until.stopped, **behaviour)).what == what


def test_an_answer_cut_off_by_death_is_explained_by_the_death(case):
    run = case(chat="hang", children=["session"])
    pid = []
    run.when(
        lambda: "waiting for the first answer" in run.reporter.phases,
        lambda: pid.append(run.state["engine"]["pid"]) or os.kill(pid[0], signal.SIGSEGV),
    )
    assert fails(run).what == "the engine died while waiting for the first answer: a native library crashed"


def test_a_port_taken_since_the_plan_is_named_with_its_holder(case):
    run = case()
    with socket.socket() as other:
        other.bind(("127.0.0.1", run.port))
        other.listen()
        with pytest.raises(EngineError) as caught:
            run.carry_out()
    assert caught.value.what == f"port {run.port} was taken between the plan and the start"
    assert caught.value.why.startswith(f"process {os.getpid()} (")
    run.assert_nothing_left()


def test_a_server_that_takes_the_port_while_ours_starts_is_recognised(case):
    run = case(ready="never")
    others = []
    run.when(
        lambda: run.folder.state.exists() and run.state["engine"],
        lambda: others.append(subprocess.Popen(standin_argv(run.port))),
    )
    with pytest.raises(EngineError) as caught:
        run.carry_out()
    others[0].kill()
    others[0].wait()
    assert caught.value.what == f"a different server answers on port {run.port}"
    assert caught.value.why.startswith(f"process {others[0].pid} (")
    run.assert_nothing_left()


def test_a_killed_warden_takes_the_engine_with_it(case):
    run = case(Until.stopped, children=["session", "daemon"])
    helpers = []

    def kill() -> None:
        helpers.extend(helper_pids(run.folder.log, 2))
        os.kill(run.state["warden"]["pid"], signal.SIGKILL)

    run.when(run.reporter.is_ready.is_set, kill)
    error = fails(run)
    assert error.what == "the process that supervises the engine was killed, and the engine with it"
    assert gone(helpers)


def test_the_log_is_followed_once_the_server_is_ready(case):
    run = case(Until.stopped)
    run.signal_when(run.reporter.is_ready.is_set, signal.SIGTERM)
    run.carry_out()
    assert run.reporter.logged[0].endswith("non-default args: {'model': 'standin'}")


def test_nothing_is_marked_before_or_after(case):
    run = case()
    assert marked(run.folder.path) == []
    run.carry_out()
    assert marked(run.folder.path) == []


def test_a_run_whose_folder_is_removed_is_stopped_all_the_same(case):
    run = case(Until.stopped, children=ALL_HELPERS)
    helpers = []

    def remove() -> None:
        helpers.extend(helper_pids(run.folder.log, 3))
        shutil.rmtree(run.folder.path)
        os.kill(os.getpid(), signal.SIGTERM)

    run.when(lambda: run.answers, remove)
    assert run.carry_out().exit_code == 143
    assert gone(helpers)
    assert marked(run.folder.path) == []
    assert [notice.split(":")[0] for notice in run.reporter.notices] == [
        "the run's state cannot be written",
        "the run's state cannot be written",
        "the receipt cannot be written",
    ]


def test_records_that_cannot_be_written_are_an_error_before_anything_starts(case):
    run = case()
    shutil.rmtree(run.folder.path)
    with pytest.raises(ConfigurationError) as caught:
        run.carry_out()
    assert caught.value.what == "the run's records cannot be written"
    assert run.reporter.phases == []
