"""The warden: a small process between `serve` and the engine, so that no engine process outlives `serve`.

vLLM's EngineCore and workers are processes of their own and survive the kill of their parent. The warden adopts every
descendant whose parent dies (it is a subreaper), holds a pipe from `serve`, and when that pipe closes, for whatever
reason, kills all it has. If the warden itself is killed, the engine's first process dies with it (PDEATHSIG) and
`serve`, a subreaper too, inherits and kills the others (process.py).

Protocol, one line each. In: the order as JSON, then `term` (a polite stop, then a kill) or `kill`; end of file is a
kill. Out, as JSON: {"event": "started", "pid"}, {"event": "failed", "error"}, {"event": "exited", "code"} for the
engine's first process (negative: the signal), {"event": "gone"} when not one descendant is left.

Standard library only: it runs isolated and without site-packages, so it starts in some 20 ms.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from toolkit.linux import control, proc

STRAGGLERS_S = 2.0
"""Seconds that helpers get to end by themselves after the engine's first process did."""
KILL_AGAIN_S = 0.02
"""A kill is repeated until nothing is left, as processes may fork meanwhile; the interval doubles up to a second."""


TRACKERS_S = 0.5
"""Seconds that Python's resource trackers get after all others are dead, to remove shared memory from /dev/shm."""


@dataclass
class Orders:
    """Lines from a pipe, without blocking on an unfinished one."""

    descriptor: int
    closed: bool = False
    _rest: bytes = b""

    def read(self) -> list[str]:
        """The complete lines that have arrived; waits until something has."""
        chunk = os.read(self.descriptor, 1 << 16)
        self.closed = not chunk
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return [line.decode() for line in lines]

    def first(self) -> str | None:
        """The first line, or None if the pipe closes before."""
        lines: list[str] = []
        while not lines and not self.closed:
            lines = self.read()
        self._rest = b"".join(line.encode() + b"\n" for line in lines[1:]) + self._rest
        return lines[0] if lines else None


@dataclass
class Watch:
    """The engine under watch, until nothing of it is left."""

    engine: int
    grace_s: float
    orders: Orders
    wake: int
    kill_at: float = field(default=float("inf"))
    again_s: float = KILL_AGAIN_S
    killing_since: float = field(default=float("inf"))
    exited: bool = False

    def until_gone(self) -> None:
        """Serve orders and collect the dead until this process has no descendant."""
        while self._collect():
            if time.monotonic() >= self.kill_at:
                self._kill()
            self._wait()

    def polite_stop(self) -> None:
        """Ask the engine's first process to end; it stops its own helpers in order."""
        if self.exited:
            return
        os.kill(self.engine, signal.SIGTERM)  # not reaped yet, so the PID is still its own
        self._kill_after(self.grace_s)

    def _collect(self) -> bool:
        """Reap whoever died; False when no child, and so no descendant, is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.engine:
                self.exited = True
                say(event="exited", code=os.waitstatus_to_exitcode(status))
                signal_all(signal.SIGTERM)
                self._kill_after(STRAGGLERS_S)

    def _kill(self) -> None:
        now = time.monotonic()
        self.killing_since = min(self.killing_since, now)
        spare = proc.is_resource_tracker if now - self.killing_since < TRACKERS_S else None
        signal_all(signal.SIGKILL, spare)
        self.kill_at = now + self.again_s
        self.again_s = min(1.0, 2 * self.again_s)

    def _wait(self) -> None:
        pause = max(0.0, self.kill_at - time.monotonic())
        sources = [self.wake] if self.orders.closed else [self.wake, self.orders.descriptor]
        ready, _, _ = select.select(sources, [], [], None if pause == float("inf") else pause)
        if self.wake in ready and signal.SIGTERM in os.read(self.wake, 512):
            self.polite_stop()
        if self.orders.descriptor in ready:
            self._obey()

    def _obey(self) -> None:
        words = self.orders.read()
        if self.orders.closed or "kill" in words:
            self._kill_after(0)
        elif "term" in words:
            self.polite_stop()

    def _kill_after(self, seconds: float) -> None:
        self.kill_at = min(self.kill_at, time.monotonic() + seconds)


def main() -> None:
    """Start the engine that the first line orders, and stay until nothing of it is left."""
    control.adopt_orphans()
    wake = signals_as_bytes()
    orders = Orders(0)
    text = orders.first()
    if text is None:
        return
    order = json.loads(text)
    try:
        engine = spawn(order["argv"], order["env"], order["folder"], order["log"])
    except (OSError, subprocess.SubprocessError) as error:
        say(event="failed", error=str(error))
        return
    say(event="started", pid=engine)
    try:
        Watch(engine, order["grace_s"], orders, wake).until_gone()
    finally:
        signal_all(signal.SIGKILL)  # finds something only where a fault of ours cut the watch short
    say(event="gone")


def spawn(argv: Sequence[str], env: dict[str, str], folder: str, log: str) -> int:
    """Start the engine in a session of its own, its output appended to `log`; its PID."""
    warden = os.getpid()

    def die_with_warden() -> None:
        control.die_with_parent(signal.SIGKILL)
        if os.getppid() != warden:  # it died before the line above
            os.kill(os.getpid(), signal.SIGKILL)

    with open(log, "ab") as output:  # noqa: PTH123  (pathlib would double the warden's start)
        process = subprocess.Popen(
            argv,
            env=env,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_warden,  # noqa: PLW1509  (safe: this process has one thread)
        )
    process.returncode = 0  # reaped by the watch, not by this object
    return process.pid


def signals_as_bytes() -> int:
    """A descriptor on which each signal arrives as one byte, its number; SIGINT and SIGHUP are for `serve` alone."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for signum in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, lambda *_: None)  # not SIG_IGN, which the engine would inherit
    return reader


def signal_all(signum: int, spare: Callable[[int], bool] | None = None) -> None:
    """Send a signal to every living descendant, but those that `spare` names by PID."""
    for process in proc.descendants(os.getpid(), proc.all_processes()):
        if not process.dead and not (spare and spare(process.pid)):
            try:
                os.kill(process.pid, signum)
            except (ProcessLookupError, PermissionError):
                continue


def say(**event: object) -> None:
    """Tell `serve`; it may be gone."""
    try:
        os.write(1, json.dumps(event).encode() + b"\n")
    except OSError:
        return
