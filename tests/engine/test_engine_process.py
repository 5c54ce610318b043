"""No process of the engine survives, whatever happens to it, to its warden or to the one who started it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from harness import gone, helper_pids, marked, until

from toolkit.engine import process
from toolkit.engine.events import EngineExited, EngineGone, WardenLost
from toolkit.engine.sweep import Scent, remains
from toolkit.errors import EngineError
from toolkit.linux import proc

ALL_HELPERS = ["session", "daemon", "clean"]


def test_a_polite_stop_ends_the_engine_and_frees_the_port(start):
    run = start()
    until(run.listening)
    run.engine.terminate()
    assert run.event() == EngineExited(-signal.SIGTERM)
    assert run.event() == EngineGone()
    assert run.engine.make_sure() == ()
    assert marked(run.folder) == []
    assert not run.listening()


def test_helpers_that_leave_group_session_parent_and_environment_die_with_the_engine(start):
    run = start(children=ALL_HELPERS)
    helpers = helper_pids(run.log, 3)
    run.engine.terminate()
    assert run.event() == EngineExited(-signal.SIGTERM)
    assert run.event() == EngineGone()
    assert gone(helpers)


def test_an_engine_that_ignores_sigterm_is_killed_after_the_grace(start):
    run = start(grace_s=0.3, ignore_term=True, children=["session"])
    until(run.listening)
    run.engine.terminate()
    assert run.event() == EngineExited(-signal.SIGKILL)
    assert run.event() == EngineGone()


def test_a_kill_does_not_wait_for_the_grace(start):
    run = start(grace_s=60.0, ignore_term=True)
    until(run.listening)
    run.engine.terminate()
    run.engine.kill()
    assert run.event(5.0) == EngineExited(-signal.SIGKILL)


@pytest.mark.parametrize("code", [0, 3, -signal.SIGSEGV])
def test_an_engine_that_ends_by_itself_is_reported_and_its_helpers_go_too(start, code):
    run = start(exit=code, children=ALL_HELPERS)
    assert run.event() == EngineExited(code)
    assert run.event() == EngineGone()
    assert run.engine.make_sure() == ()
    assert marked(run.folder) == []


def test_shared_memory_is_not_left_behind_by_a_kill(start):
    run = start(children=["tracker"])
    helper_pids(run.log, 1)
    name = run.log.read_text().split("helper tracker ")[1].split()[0]
    assert Path("/dev/shm", name).exists()
    run.engine.kill()
    run.event()
    assert run.event() == EngineGone()
    assert not Path("/dev/shm", name).exists()


def test_when_the_warden_is_killed_everything_else_is_found(start):
    run = start(children=ALL_HELPERS)
    helpers = helper_pids(run.log, 3)
    assert {p.pid for p in run.engine.processes()} == {run.engine.pid, *helpers}
    os.kill(run.engine.warden_pid, signal.SIGKILL)
    assert run.event() == WardenLost()
    until(lambda: gone([run.engine.pid]))  # the kernel killed it with its parent
    left = {p.pid for p in remains(Scent(str(run.folder)))}
    assert len(left & set(helpers)) == 2  # by the marker alone; the third dropped it
    assert run.engine.make_sure() == ()
    assert gone(helpers)


def test_the_engine_sees_exactly_the_given_environment_and_folder(start):
    run = start()
    until(run.listening)
    seen = Path(f"/proc/{run.engine.pid}/environ").read_bytes().split(b"\0")
    assert {entry.partition(b"=")[0].decode() for entry in seen if entry} == set(run.launch.env)
    assert Path(f"/proc/{run.engine.pid}/cwd").resolve() == run.folder
    assert os.getsid(run.engine.pid) == run.engine.pid


def test_a_program_that_does_not_exist_is_an_error(tmp_path):
    launch = process.Launch(["/nowhere/python"], {}, tmp_path, tmp_path / "serve.log", 1.0)
    with pytest.raises(EngineError, match="the engine's program could not be started") as caught:
        process.start(launch, None)
    assert "No such file or directory" in caught.value.why


PARENT = """
import sys, time, json
from pathlib import Path
from queue import SimpleQueue
from toolkit.engine import process
launch = json.loads(sys.argv[1])
folder = Path(launch["folder"])
engine = process.start(process.Launch(launch["argv"], launch["env"], folder, folder / "serve.log", 60.0), SimpleQueue())
print(engine.pid, engine.warden_pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("fatal", [signal.SIGKILL, signal.SIGTERM, signal.SIGQUIT])
def test_when_the_parent_is_killed_nothing_is_left(start, tmp_path, fatal):
    template = start(children=[])  # its launch is reused below
    template.engine.kill()
    folder = tmp_path / "killed"
    folder.mkdir()
    behaviour = folder / "standin.json"
    behaviour.write_text(json.dumps({"ignore_term": True, "children": ALL_HELPERS}))
    env = {**template.launch.env, "STANDIN": str(behaviour), proc.MARKER: str(folder)}
    order = {"argv": template.launch.argv, "env": env, "folder": str(folder)}
    parent = subprocess.Popen([sys.executable, "-c", PARENT, json.dumps(order)], stdout=subprocess.PIPE)
    engine, warden = map(int, parent.stdout.readline().split())
    log = folder / "serve.log"
    helpers = helper_pids(log, 3)
    parent.send_signal(fatal)
    parent.wait()
    parent.stdout.close()
    until(lambda: gone([engine, warden, *helpers]))
