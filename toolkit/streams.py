"""The standard streams as a verb uses them: results on one, talk on the other, and neither taken for granted."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper

from toolkit.display.plain import visible
from toolkit.errors import CheckFailedError

STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def complete_streams() -> None:
    """Give a process that was started without a standard stream an empty one, and make the others take any text.

    Otherwise the next file that is opened would become that stream, and Python's own would be None.
    """
    for number, (name, mode) in enumerate(STREAMS):
        if getattr(sys, name) is None:
            _fill(number)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal without UTF-8 gets an escape, not a traceback
            stream.reconfigure(errors="backslashreplace")


def say(text: str, *, coloured: bool = False) -> None:
    """Print a result at once, as a text and nothing that a terminal would act on.

    coloured: it was laid out by toolkit.display, whose colours are kept.
    Raises CheckFailedError where standard output cannot take it, such as a full disk.
    """
    with writing():
        print(visible(text, coloured=coloured), flush=True)


def tell(text: str) -> None:
    """Print a message on standard error; one that cannot take it changes nothing of what the verb does."""
    try:
        print(visible(text), file=sys.stderr, flush=True)
    except OSError:
        _drop(sys.stderr.fileno())


@contextmanager
def writing() -> Iterator[None]:
    """What prints to standard output inside raises CheckFailedError where it cannot, or BrokenPipeError."""
    try:
        try:
            yield
        finally:  # also where Hydra ends the process itself, as after its help
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno is None:  # not the system's: Hydra's MissingConfigException is an OSError as well
            raise
        drop_output()
        why = error.strerror or str(error)
        raise CheckFailedError("the output cannot be written", where="standard output", why=why) from error


def drop_output() -> None:
    """What is still buffered would raise once more when the interpreter ends."""
    _drop(sys.stdout.fileno())


def _drop(number: int) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def _fill(number: int) -> None:
    """Open the null device under this number, unless something has it by now."""
    try:
        os.fstat(number)
    except OSError:
        opened = os.open(os.devnull, os.O_RDWR)
        os.dup2(opened, number)  # also lets child processes inherit it
        if opened != number:
            os.close(opened)
        else:
            os.set_inheritable(number, True)
