"""Readiness is asked for in steps, and each wrong reply has its own error."""

import threading

import pytest
from harness import until

from toolkit.engine.answer import MODEL_CHECKS
from toolkit.engine.http import Client, NoReplyError
from toolkit.engine.port import describe_holder, holders
from toolkit.engine.readiness import Question, ask, check_model, wait_healthy
from toolkit.errors import EngineError
from toolkit.planning.plan import ServerAddress

DEGENERATE = "the model's output is degenerate: "
UNKNOWN = "the answer has no log-probabilities, so NaN cannot be ruled out"
QUESTION = Question("What is the capital of France?", MODEL_CHECKS)


def client_of(run, model: str = "m", key: str | None = None) -> Client:
    until(run.listening)
    return Client(ServerAddress("127.0.0.1", run.port, model), key)


def test_a_sound_server_passes_every_step(start):
    client = client_of(start(health=3))
    assert wait_healthy(client, threading.Event())
    check_model(client)
    assert ask(client, QUESTION).text == "The capital of France is Paris."


def test_waiting_can_be_cancelled():
    cancelled = threading.Event()
    cancelled.set()
    assert not wait_healthy(Client(ServerAddress("127.0.0.1", 1, "m")), cancelled)


def test_another_model_is_a_different_server(start):
    run = start(model="somebody-elses")
    with pytest.raises(EngineError) as caught:
        check_model(client_of(run))
    assert caught.value.what == "a different server answers: m is not among its models"
    assert caught.value.why == "it serves somebody-elses"


def test_a_server_that_wants_another_key_is_recognised(start):
    with pytest.raises(EngineError) as caught:
        check_model(client_of(start(key_required=True), key="ours"))
    assert caught.value.what == "the server refuses our API key"
    assert "ours" not in str(caught.value).replace("refuses our API", "")


@pytest.mark.parametrize(
    ("behaviour", "what"),
    [
        ({"text": ""}, DEGENERATE + UNKNOWN + "; the answer is empty"),
        ({"text": "!" * 64}, DEGENERATE + "the answer is one character, '!', 64 times"),
        ({"text": "xy" * 9, "tokens": ["xy"] * 9}, DEGENERATE + "the answer is one token, 'xy', 9 times"),
        ({"logprob": None}, DEGENERATE + "1 of 1 log-probabilities are not finite numbers"),
        ({"logprob": "missing"}, DEGENERATE + UNKNOWN),
        ({"chat": "close"}, "the server is up but does not answer"),
        ({"chat": "error"}, "the server answered 500 instead of a completion"),
    ],
)
def test_wrong_answers_are_named(start, behaviour, what):
    with pytest.raises(EngineError) as caught:
        ask(client_of(start(**behaviour)), QUESTION)
    assert caught.value.what == what
    assert caught.value.exit_code == 6


def test_nan_in_a_server_error_is_explained(start):
    with pytest.raises(EngineError) as caught:
        ask(client_of(start(chat="error")), QUESTION)
    assert caught.value.why.startswith("its numbers are NaN or infinite: ")


def test_no_proxy_is_ever_used(start, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert client_of(start()).get("/health", 5.0).status == 200


def test_nobody_listening_is_said():
    with pytest.raises(NoReplyError, match="nothing listens there"):
        Client(ServerAddress("127.0.0.1", 1, "m")).get("/health", 1.0)


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1", "localhost"])
def test_a_server_on_every_address_is_reached_on_the_loopback(start, host):
    run = start()
    until(run.listening)
    assert Client(ServerAddress(host, run.port, "m")).get("/health", 5.0).status == 200


def test_who_holds_a_port_is_known(start):
    run = start()
    until(run.listening)
    assert holders(run.port, [run.engine.pid, 1]) == (run.engine.pid,)
    assert describe_holder(run.port).startswith(f"process {run.engine.pid} (")
    run.engine.kill()
    until(lambda: not run.listening())
    assert holders(run.port, [run.engine.pid]) == ()
    assert describe_holder(run.port) == "a process of another user or container"
