"""Paths as users write them."""

from __future__ import annotations

from pathlib import Path

from toolkit.errors import ConfigurationError


def user_path(name: str, option: str) -> Path:
    """A path in which `~` and `~USER` stand for home folders.

    option: where it was written, such as `machine.facts_file`.
    Raises ConfigurationError where there is no such home, or the text is no path at all.
    """
    fix = "write the path in full"
    if "\0" in name:
        raise ConfigurationError(f"{option}={name!r} holds a null character, which no path does", where=option, fix=fix)
    try:
        return Path(name).expanduser()
    except RuntimeError:
        user = "a user that this machine does not know" if name.partition("/")[0] != "~" else "a home that is not known"
        raise ConfigurationError(f"{option}={name!r} begins with {user}", where=option, fix=fix) from None
