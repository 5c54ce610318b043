"""One installation at a time in an environment."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from toolkit.errors import CheckFailedError
from toolkit.setup.place import Place


@contextmanager
def exclusive(place: Place, waiting: Callable[[], None]) -> Iterator[int]:
    """Hold the environment's lock; yields its descriptor. Calls `waiting` once if another process has it.

    The lock is the kernel's, on an open file: it ends with its last holder, however that ends. Raises CheckFailedError
    where the checkout cannot be written.
    """
    try:
        place.aside.mkdir(exist_ok=True)
        held = os.open(place.aside / "lock", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise CheckFailedError(
            "the checkout cannot be written",
            where=str(place.root),
            why=error.strerror or str(error),
            fix="copy or clone it to a folder of yours, and run ./quickstart there",
        ) from None
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(held, fcntl.LOCK_EX)
        yield held
    finally:
        os.close(held)
