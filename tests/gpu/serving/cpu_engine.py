"""SmolLM2 served by `python -m toolkit.serve` on the CPU engine, for the record that a GPU is compared with."""

import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from tests.gpu.serving.client import Client
from tests.gpu.serving.server import end

START_S = 600


@contextmanager
def cpu_server(kv):
    """Its client while the server runs."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = Path(tempfile.mkdtemp())
    words = ["+recipe=smollm2_cpu", f"kv={kv}", f"server.port={port}", f"runs={folder}", "output=json"]
    with (folder / "out").open("wb") as out:
        process = subprocess.Popen([sys.executable, "-m", "toolkit.serve", *words], stdout=out, start_new_session=True)
    try:
        _wait(process, folder / "out")
        yield Client(port, "smollm2")
    finally:
        end(process, signal.SIGTERM)


def _wait(process, said):
    begun = time.monotonic()
    while time.monotonic() - begun < START_S and process.poll() is None:
        try:
            if json.loads(said.read_text())["result"] == "answered":
                return
            break
        except ValueError:
            time.sleep(0.5)
    raise RuntimeError(f"the CPU engine did not start: {said.read_text()[-1500:]}")
