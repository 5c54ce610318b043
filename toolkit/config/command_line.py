"""Overrides as users type them, made into what Hydra accepts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

NUMBERED = re.compile(r"(?P<group>[\w/]+)=(?P<choices>\d+(?:,\d+)*)$")


MULTIRUN = ("-m", "--multirun")


def sweep_flag_first(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with `-m` in front: Hydra's parser refuses it between overrides."""
    flags = [argument for argument in arguments if argument in MULTIRUN]
    return [*flags[:1], *(argument for argument in arguments if argument not in MULTIRUN)]


def quote_numbered_choices(arguments: Sequence[str], conf: Path) -> list[str]:
    """Return the arguments with `dcp=2` as `dcp='2'`.

    Hydra reads a bare number as an integer and refuses it as the name of a group's file. conf: the folder of groups.
    """
    return [_quoted(argument, conf) for argument in arguments]


def _quoted(argument: str, conf: Path) -> str:
    match = NUMBERED.match(argument)
    if match is None or not (conf / match["group"]).is_dir():
        return argument
    return f"{match['group']}={','.join(repr(choice) for choice in match['choices'].split(','))}"
