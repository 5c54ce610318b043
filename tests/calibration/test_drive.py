"""Prompts over real HTTP to a small server that says what it was asked."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from toolkit.calibration.drive import CancelledError, Sizes, Totals, run_prompts
from toolkit.calibration.prompts import Prompt
from toolkit.checkpoint.progress import Silent
from toolkit.engine.http import Client
from toolkit.errors import EngineError
from toolkit.planning.plan import ServerAddress

SIZES = Sizes(max_tokens=4, max_model_len=100, concurrency=2)
TEXT, CHAT = Prompt("Once upon a time"), Prompt(messages=({"role": "user", "content": "Hello"},))


class Server:
    """Counts a prompt's characters as its tokens, cuts them as it is told, and keeps every request."""

    def __init__(self):
        self.asked, self.status, asked_at_once = [], 200, [0, 0]
        lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    server.asked.append((self.path, body))
                    asked_at_once[0] += 1
                    asked_at_once[1] = max(asked_at_once)
                server.turn.wait(5)
                text = body.get("prompt") or body["messages"][0]["content"]
                tokens = min(len(text), body["truncate_prompt_tokens"])
                answer = {"usage": {"prompt_tokens": tokens, "completion_tokens": 2}}
                data = json.dumps(answer if server.status == 200 else {"error": "too odd"}).encode()
                with lock:
                    asked_at_once[0] -= 1
                self.send_response(server.status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.turn = threading.Event()
        self.turn.set()
        self.at_once = asked_at_once
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.client = Client(ServerAddress("127.0.0.1", self.http.server_address[1], "m"))


@pytest.fixture
def server():
    made = Server()
    yield made
    made.http.shutdown()
    made.http.server_close()


def run(server, prompts, sizes=SIZES, cancelled=None):
    return run_prompts(server.client, prompts, sizes, cancelled or threading.Event(), Silent())


def test_texts_are_continued_and_chats_answered(server):
    assert run(server, [TEXT, CHAT]) == Totals(prompts=2, prompt_tokens=21, generated_tokens=4, cut=0)
    common = {"model": "m", "max_tokens": 4, "temperature": 0, "truncate_prompt_tokens": 96}
    assert sorted(server.asked, key=lambda item: item[0]) == [
        ("/v1/chat/completions", {**CHAT.to_data(), **common}),
        ("/v1/completions", {**TEXT.to_data(), **common}),
    ]


def test_a_prompt_that_fills_the_context_counts_as_cut(server):
    assert run(server, [TEXT, CHAT], Sizes(4, 14, 2)) == Totals(prompts=2, prompt_tokens=15, generated_tokens=4, cut=1)


def test_as_many_run_at_once_as_the_server_takes(server):
    server.turn.clear()
    threading.Timer(0.5, server.turn.set).start()
    run(server, [CHAT] * 9, Sizes(4, 100, 3))
    assert server.at_once[1] == 3


def test_an_answer_that_is_no_completion_is_an_error_with_the_servers_words(server):
    server.status = 400
    with pytest.raises(EngineError, match="the server answered 400 instead of completing a prompt") as caught:
        run(server, [TEXT])
    assert caught.value.why == '{"error": "too odd"}'


def test_a_server_that_is_gone_is_an_error(server):
    server.http.shutdown()
    server.http.server_close()
    with pytest.raises(EngineError, match="a prompt got no reply"):
        run(server, [TEXT])


def test_nothing_more_is_sent_once_nobody_waits(server):
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(CancelledError):
        run(server, [TEXT], cancelled=cancelled)
    assert server.asked == []
