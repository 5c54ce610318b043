"""Ends a process quietly where Ctrl-C comes while its verb is still importing; each verb imports this before the rest.

Python then ends by that signal (130 in a shell), as it does without us, after it has printed a traceback.
"""

from __future__ import annotations

import sys
from types import TracebackType


def _quiet(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _quiet
