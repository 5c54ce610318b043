"""Who uses a view: a lock that a serving process shares with others, and that keeps the view from being collected.

The kernel releases it when its holder ends, however that happens.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from toolkit.storage.lock import locked_if_free
from toolkit.views.store import ViewStore


@contextmanager
def lease(store: ViewStore, name: str) -> Iterator[None]:
    """Use a view; taken before the view is looked for, so that nothing can come between. The store is prepared."""
    descriptor = os.open(store.lock_file(name, "lease"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)  # waits while the view is being removed, which is short
        yield
    finally:
        os.close(descriptor)


def unused(store: ViewStore, name: str) -> AbstractContextManager[bool]:
    """Keep a view from being used, if nobody uses it; yields whether."""
    return locked_if_free(store.lock_file(name, "lease"))
