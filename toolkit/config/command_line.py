"""A verb's command line as data, without what would take configuration from elsewhere than the toolkit expects."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from toolkit.config.paths import user_path
from toolkit.errors import ConfigurationError

SERVICES = ("help", "hydra_help", "cfg", "info", "multirun", "shell_completion", "resolve", "package")
NUMBERED = re.compile(r"(?P<key>[+~]*(?P<group>[\w/]+))=(?P<choices>\d+(?:,\d+)*)$")
SEVERAL = re.compile(r"[+~]*[\w/]+=\[")


@dataclass(frozen=True)
class CommandLine:
    """What the user typed behind the verb."""

    overrides: tuple[str, ...]
    config_name: str | None
    config_dir: Path | None
    parsed: Namespace = field(repr=False)
    """Everything, as Hydra's own parser reads it."""

    def with_recipe(self, name: str) -> CommandLine:
        """The same command line with another recipe."""
        others = (text for text in self.overrides if text.partition("=")[0].lstrip("+") != "recipe")
        quoted = name.replace("'", r"\'")
        return replace(self, overrides=(f"+recipe='{quoted}'", *others))

    @property
    def sweeps(self) -> bool:
        """Whether several jobs are asked for, and none of Hydra's other services."""
        others = (service for service in SERVICES if service != "multirun")
        return bool(self.parsed.multirun) and not any(getattr(self.parsed, service) for service in others)

    @property
    def plain(self) -> bool:
        """Whether one job is asked for, and none of Hydra's services."""
        return not any(getattr(self.parsed, service) for service in SERVICES)


def read_command_line(arguments: Sequence[str], conf: Path) -> CommandLine:
    """Parse as Hydra does, but with flags allowed between overrides.

    conf: the shipped folder of groups.
    Raises ConfigurationError for what is refused; an unknown flag ends the process with 2.
    """
    from hydra._internal.utils import get_args_parser

    parsed = get_args_parser().parse_intermixed_args(list(arguments))
    if parsed.experimental_rerun is not None:
        raise _refused("--experimental-rerun", "it unpickles a file, which can run any code", "give overrides instead")
    if parsed.config_path is not None:
        raise _refused("--config-path", "it would hide the toolkit's own files", "add a folder with --config-dir DIR")
    for override in parsed.overrides:
        _check(override)
    folder = _folder(parsed.config_dir) if parsed.config_dir is not None else None
    parsed.config_dir = str(folder) if folder is not None else None
    parsed.overrides = [_quoted(override, (conf, folder or conf)) for override in parsed.overrides]
    return CommandLine(tuple(parsed.overrides), parsed.config_name, folder, parsed)


def typed_so_far(line: str, conf: Path) -> tuple[str, str | None]:
    """A command line that a shell asks to complete, as Hydra can read it, and the folder of its `--config-dir`.

    Flags are left out, as Hydra's parser ends the process at one that is half typed. The last word is the one to
    complete, and stays as it is.
    """
    program, *before, last = line.split(" ") if " " in line else (line, "")
    given = [word for flag, word in pairwise(before) if flag in ("--config-dir", "-cd")]
    given += [word.partition("=")[2] for word in before if word.startswith("--config-dir=")]
    folder = next((path for path in map(_home_or_as_it_is, given) if path.is_dir()), None)
    overrides = [word for word in before if word in ("-m", "--multirun") or (word[:1] not in "-" and "=" in word)]
    typed = [_quoted(word, (conf, folder or conf)) for word in overrides]
    word = "" if last.startswith("-") else last
    return " ".join([program, *typed, word]), str(folder.absolute()) if folder is not None else None


def _home_or_as_it_is(name: str) -> Path:
    try:
        return user_path(name, "--config-dir")
    except ConfigurationError:  # half typed
        return Path(name)


def _folder(name: str) -> Path:
    folder = user_path(name, "--config-dir").absolute()
    if not folder.is_dir():
        raise ConfigurationError(f"there is no folder {name}", where="--config-dir", fix="name one with recipe/*.yaml")
    return folder


def _check(override: str) -> None:
    key = override.partition("=")[0]
    if key.lstrip("+~") == "hydra.searchpath":
        raise _refused("hydra.searchpath", "it adds folders and packages unseen", "add a folder with --config-dir DIR")
    if "hydra" in key.partition("@")[2]:
        raise _refused(f"'{key}'", "it would place a file's values among Hydra's own settings", "leave out @hydra...")
    if SEVERAL.match(override):
        raise ConfigurationError(
            f"several choices in '{override}'",
            where="command line",
            why="one plan has one choice of each group",
            fix="write GROUP=NAME, or -m GROUP=NAME,OTHER for one job each",
        )


def _quoted(override: str, folders: Iterable[Path]) -> str:
    """`dcp=2` as `dcp='2'`: Hydra reads a bare number as an integer and refuses it as the name of a group's file."""
    match = NUMBERED.match(override)
    if match is None or not any((folder / match["group"]).is_dir() for folder in folders):
        return override
    return f"{match['key']}={','.join(repr(choice) for choice in match['choices'].split(','))}"


def _refused(what: str, why: str, fix: str) -> ConfigurationError:
    return ConfigurationError(f"{what} is refused", where="command line", why=why, fix=fix)
