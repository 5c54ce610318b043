"""A stand-in for the engine: it takes vLLM's command line and shows every way in which an engine can behave.

What it does is read from the JSON file that STANDIN names; without one it is a well-behaved server:

stderr: [lines]         printed first
exit: N                 then end at once with that code (negative: by that signal)
children: [kinds]       helper processes; `session` leaves group and session, `daemon` also its parent, `clean` drops
                        its environment too, `tracker` holds shared memory; all ignore SIGTERM
ignore_term: true       SIGTERM and SIGINT do nothing
report: [lines]         what it logs of its KV cache, beside a line that lacks the concurrency
lines: N, every_s: S    that many log lines, one each S seconds, before it listens
ready: "never"          sleeps instead of listening;  "spin" burns CPU instead
model: NAME             another name than the one asked for
key_required: true      401 without VLLM_API_KEY (set automatically where the variable is)
health: N               that many 503 replies to /health before 200
chat: "answer"          or "hang", "close", "error", "busy" (works for work_s seconds, then answers)
text, tokens, logprob   the answer; logprob may be null or a number, and "missing" leaves them out
measure: {measurement}   written for each segment that calibration announces, when the next request comes after it
workers: [reports]      written into the working directory, as our plugin writes them; one of its own by default
last: [reports]         written when SIGTERM comes, over the others
then: "hang"            after the first chat answer, no request is answered any more
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socketserver
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HELPER = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGINT, signal.SIG_IGN)
kind = sys.argv[1]
if kind != "session":
    if os.fork(): os._exit(0)
    os.setsid()
    if os.fork(): os._exit(0)
print("helper", kind, os.getpid(), flush=True)
time.sleep(600)
"""

TRACKER = """
import signal, time
from multiprocessing import shared_memory
signal.signal(signal.SIGTERM, signal.SIG_IGN)
memory = shared_memory.SharedMemory(create=True, size=4096)
print("helper tracker", memory.name, flush=True)
time.sleep(600)
"""

STANDARD = str(Path(os.__file__).parent)
VERSIONS = {"python": "3.11.7", "vllm": "0.32.0"}
RUNTIME = {
    "platform": "vllm.platforms.cpu.CpuPlatform", "device": "standin", "capability": "", "operators": [],
    "native_libraries": [], "compilation": "NONE", "graphs": "NONE", "capture_sizes": [], "kv_blocks": None,
}  # fmt: skip
LINES = (
    "INFO 11-29 13:56:33 [api_utils.py:286] non-default args: {'model': 'standin'}",
    "INFO 11-29 13:57:00 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: model='standin'",
    "INFO 11-29 13:57:11 [cpu_model_runner.py:68] Starting to load model standin...",
    "INFO 11-29 13:57:13 [default_loader.py:501] Loading weights took 1.15 seconds",
    "INFO 11-29 13:57:14 [kv_cache_utils.py:2327] CPU KV cache size: 93,184 tokens",
    "INFO 11-29 13:57:27 [entry.py:140] Starting vLLM server on http://127.0.0.1:1",
)


def main() -> None:
    if sys.argv[1:3] == ["-I", "-c"]:  # the toolkit asks its interpreter for its import path, or what it is
        print(json.dumps(described() if "standard" in sys.argv[3] else []))
        return
    arguments = parse(sys.argv[1:])
    behaviour = json.loads(Path(os.environ["STANDIN"]).read_text()) if "STANDIN" in os.environ else {}
    if behaviour.get("ignore_term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    start_helpers(behaviour.get("children", []))
    for line in behaviour.get("stderr", []):
        print(line, file=sys.stderr, flush=True)
    if "exit" in behaviour:
        end(behaviour["exit"])
    for line in [*LINES[:-1], *behaviour.get("report", []), LINES[-1]]:
        print(line, flush=True)
    for number in range(behaviour.get("lines", 0)):
        print(f"still loading: part {number}", flush=True)
        time.sleep(behaviour.get("every_s", 0.0))
    if behaviour.get("ready") == "never":
        time.sleep(600)
    while behaviour.get("ready") == "spin":
        pass
    own = [own_report(arguments.additional_config)] if "STANDIN" in os.environ else []
    write(behaviour.get("workers", own))
    if "last" in behaviour:
        signal.signal(signal.SIGTERM, lambda *_: (write(behaviour["last"]), end(0)))
    server = Server((arguments.host, arguments.port), handler(arguments.served_model_name, behaviour))
    server.serve_forever(poll_interval=0.01)


def write(reports: list[dict]) -> None:
    for report in reports:
        folder = Path("workers")
        folder.mkdir(exist_ok=True)
        (folder / f"rank{report['rank']}-pid1.json").write_text(json.dumps(report))


def described() -> dict:
    """What an interpreter answers about its own environment (toolkit/machine/interpreter.py)."""
    return {"executable": sys.executable, "python": VERSIONS["python"], "standard": [STANDARD], "packages": []}


def own_report(additional: str) -> dict:
    """What the one worker of this engine says of itself, if nothing else is asked for."""
    told = json.loads(additional).get("volta", {})
    imports = [{"folder": STANDARD, "modules": ["os"], "count": 1}]
    own = {"schema": 1, "rank": 0, "world_size": 1, "pid": os.getpid(), "engine": told.get("engine", "cpu")}
    own |= {"switches": told.get("switches", {}), "runtime": RUNTIME}
    return {**own, "versions": VERSIONS, "paths": {}, "imports": imports, "requests": 1}


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # HTTPServer's asks the resolver for this machine's name
        self.server_name, self.server_port = "standin", self.server_address[1]


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("-m")
    parser.add_argument("--served-model-name")
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--additional-config", default="{}")
    return parser.parse_known_args(argv)[0]


def start_helpers(kinds: list[str]) -> None:
    for kind in kinds:
        program = TRACKER if kind == "tracker" else HELPER
        env = {} if kind == "clean" else None
        subprocess.Popen([sys.executable, "-S", "-c", program, kind], env=env, start_new_session=kind == "session")


def end(code: int) -> None:
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code)


def handler(model: str, behaviour: dict) -> type[BaseHTTPRequestHandler]:  # noqa: C901  (one method a route)
    refusals = [503] * behaviour.get("health", 0)
    stuck = threading.Event()
    announced: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if stuck.is_set():
                time.sleep(600)
            if self.path == "/health":
                self.reply(refusals.pop() if refusals else 200, {})
            elif self.authorized():
                self.reply(200, {"object": "list", "data": [{"id": behaviour.get("model", model)}]})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            if "measure" in behaviour:
                measure(behaviour["measure"], announced)
            chat = behaviour.get("chat", "answer")
            if chat == "hang":
                time.sleep(600)
            elif chat == "close":
                self.close_connection = True
            elif chat == "error":
                message = "Out of range float values are not JSON compliant: nan"
                self.reply(500, {"error": {"message": message}})
            elif self.authorized():
                if chat == "busy":
                    work(behaviour["work_s"])
                self.reply(200, completion(behaviour))
                self.afterwards()

        def afterwards(self) -> None:
            if behaviour.get("then") == "hang":
                stuck.set()

        def authorized(self) -> bool:
            key = os.environ.get("VLLM_API_KEY")
            if (key or behaviour.get("key_required")) and self.headers.get("Authorization") != f"Bearer {key}":
                self.reply(401, {"error": "Unauthorized"})
                return False
            return True

        def reply(self, status: int, body: object) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def measure(measurement: dict, announced: list[str]) -> None:
    """As a worker does: nothing while a segment runs, its measurement once it is over."""
    control = Path("measurements/control.json")
    segment = json.loads(control.read_text())["segment"] if control.exists() else None
    if segment is not None:
        announced[:] = [segment]
    elif announced:
        path = control.with_name(f"{announced[0]}-rank0-pid1.json")
        path.with_suffix(".new").write_text(json.dumps({**measurement, "segment": announced.pop()}))
        path.with_suffix(".new").replace(path)


def work(seconds: float) -> None:
    start = time.process_time()
    while time.process_time() - start < seconds:
        pass


def completion(behaviour: dict) -> dict:
    text = behaviour.get("text", "The capital of France is Paris.")
    tokens = behaviour.get("tokens", [text] if text else [])
    logprob = behaviour.get("logprob", -0.25)
    scored = [{"token": token, "logprob": logprob} for token in tokens]
    logprobs = None if logprob == "missing" else {"content": scored}
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 5, "completion_tokens": 3}
    return {
        "usage": usage,
        "choices": [{"index": 0, "message": message, "logprobs": logprobs, "finish_reason": "stop"}],
    }


if __name__ == "__main__":
    main()
