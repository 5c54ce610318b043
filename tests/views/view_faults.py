"""Every file operation of a piece of code, counted, recorded, and made to fail or kill the process at a chosen one."""

from __future__ import annotations

import builtins
import fcntl
import io
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from toolkit.storage import disk

READING = ("stat", "lstat", "readlink", "scandir", "listdir")
WRITING = (
    "open", "write", "read", "fsync", "close", "rename", "replace", "link", "symlink", "mkdir", "unlink", "remove",
    "rmdir", "chmod", "fchmod", "ftruncate", "truncate", "utime",
)  # fmt: skip
CHANGING = (*WRITING, "flock", "ioctl", "exchange")
"""A kill before an operation that only reads is a kill before the next one that changes something."""
EVERY = (*READING, *CHANGING, "io.open")


@dataclass
class Operations:
    """What happened: each operation's name, arguments and result."""

    happened: list[tuple[str, tuple[Any, ...], Any]] = field(default_factory=list)
    count: int = 0


@contextmanager
def watched(
    at: int = 0, action: Callable[[], None] | None = None, counted: tuple[str, ...] = EVERY
) -> Iterator[Operations]:
    """Count the operations of this process; `action` comes in the place of number `at` (from 1)."""
    seen = Operations()

    def wrapped(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if name not in counted:
                return original(*args, **kwargs)
            seen.count += 1
            if seen.count == at and action is not None:
                # A close that fails has closed nevertheless, as the kernel does it.
                if name == "close":
                    original(*args, **kwargs)
                action()
            result = original(*args, **kwargs)
            seen.happened.append((name, args, result))
            return result

        return call

    with ExitStack() as stack:
        for name in (*READING, *WRITING):
            stack.enter_context(patch.object(os, name, wrapped(name, getattr(os, name))))
        stack.enter_context(patch.object(fcntl, "flock", wrapped("flock", fcntl.flock)))
        stack.enter_context(patch.object(fcntl, "ioctl", wrapped("ioctl", fcntl.ioctl)))
        stack.enter_context(patch.object(disk, "rename_exchange", wrapped("exchange", disk.rename_exchange)))
        opening = wrapped("io.open", io.open)
        stack.enter_context(patch.object(io, "open", opening))
        stack.enter_context(patch.object(builtins, "open", opening))
        yield seen


def failing(number: int) -> Callable[[], None]:
    def fail() -> None:
        raise OSError(number, os.strerror(number))

    return fail


def killed_at(at: int, task: Callable[[], object]) -> bool:
    """Whether a child process that runs the task was killed at that operation; False where it ended before."""
    child = os.fork()
    if child == 0:
        try:
            with watched(at, lambda: os.kill(os.getpid(), signal.SIGKILL), CHANGING):
                task()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def unsynced(happened: list[tuple[str, tuple[Any, ...], Any]], root: Path) -> list[str]:
    """What a rename published below `root` before it was brought to the disk; empty if nothing."""
    paths: dict[int, str] = {}
    dirty: set[str] = set()
    wrong: list[str] = []
    for name, args, result in happened:
        if name == "open":
            paths[result] = os.fspath(args[0])
            if args[1] & os.O_CREAT and args[1] & os.O_EXCL:
                dirty |= {paths[result], parent(args[0])}
        elif name == "write":
            dirty.add(paths[args[0]])
        elif name == "fsync":
            dirty.discard(paths[args[0]])
        elif name == "mkdir":
            dirty |= {os.fspath(args[0]), parent(args[0])}
        elif name == "unlink":
            dirty.discard(os.fspath(args[0]))
        elif name == "symlink":
            dirty.add(parent(args[1]))
        elif name in ("rename", "replace", "exchange"):
            source = os.fsdecode(args[0])
            wrong += [path for path in sorted(dirty) if path == source or path.startswith(source + "/")]
            dirty.add(parent(args[1]))
    return wrong + [f"{root} after the rename"] * (os.fspath(root) in dirty)


def parent(path: Any) -> str:
    return str(Path(os.fsdecode(path)).parent)
