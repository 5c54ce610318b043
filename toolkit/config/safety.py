"""A stranger's configuration must not run code.

Hydra acts on its own `hydra` node (launchers, callbacks, logging factories, environment variables) before any verb
runs. So every file outside the shipped folder is read through `ValuesOnly`, whichever way Hydra was told of it, and
one that could reach that node is refused before Hydra sees a word of it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import StringIO
from pathlib import Path, PurePosixPath
from typing import Any

from toolkit.config.plain_yaml import load
from toolkit.config.search_path import PACKAGE, shipped_conf
from toolkit.errors import ConfigurationError

MAX_BYTES = 1_000_000  # a larger file takes YAML's parser minutes
HEADER_CHARACTERS = 512  # as far as Hydra looks for `# @package`


def import_nothing_from_here() -> None:
    """Take the working folder from the import path, where `python -m` puts it, unless the toolkit itself lies there.

    Hydra imports every module of a package `hydra_plugins`, and a stranger's folder may hold one.
    """
    here = Path.cwd()
    if sys.path and sys.path[0] in ("", str(here)) and PACKAGE.parent != here:
        del sys.path[0]


def read_values_only() -> None:
    """From now on Hydra reads every file that is not shipped through `values_only`."""
    from hydra._internal.core_plugins.file_config_source import FileConfigSource
    from hydra._internal.sources_registry import SourcesRegistry
    from hydra.core.plugins import Plugins
    from hydra.plugins.config_source import ConfigResult

    class ValuesOnly(FileConfigSource):
        """Hydra's source of files, but a file outside the shipped folders is checked first."""

        def load_config(self, config_path: str) -> ConfigResult:
            file = Path(self.path, self._normalize_file_name(config_path)).resolve()
            if not file.is_file() or any(file.is_relative_to(folder) for folder in trusted_folders()):
                return super().load_config(config_path)
            with _readable(file):
                if (size := file.stat().st_size) > MAX_BYTES:
                    raise ValueError(f"it holds {size:,} bytes, and a configuration holds at most {MAX_BYTES:,}")
                text = file.read_text(encoding="utf-8")
                header = self._get_header_dict(text[:HEADER_CHARACTERS])
                values = values_only(text, file, config_path)
            return ConfigResult(self.provider, f"file://{self.path}", values, header)

    Plugins.instance()  # registers Hydra's own sources, which ValuesOnly then replaces
    SourcesRegistry.instance().types["file"] = ValuesOnly


def trusted_folders() -> tuple[Path, ...]:
    """The shipped folders; in a checkout, recipe/ is a link."""
    return shipped_conf().resolve(), (shipped_conf() / "recipe").resolve()


def values_only(text: str, file: Path, config_path: str) -> Any:
    """The OmegaConf container of a YAML text that holds nothing but values.

    config_path: the path by which Hydra asks for the file.
    Raises ConfigurationError for any other text; YAML's own errors pass through.
    """
    from omegaconf import OmegaConf

    plain = load(text)
    if not isinstance(plain, Mapping):
        raise ConfigurationError(f"{file.name} holds no mapping", where=str(file), fix="write lines of `name: value`")
    for entry in misshapen(plain.get("defaults", [])):
        raise ConfigurationError(
            f"{file.name} has a defaults list that cannot be read: {entry}",
            where=str(file),
            fix='each entry is `- override /GROUP: NAME` or `- NAME`; a name of digits is quoted, as in `/dcp: "2"`',
        )
    for reached in reaches(config_path, text[:HEADER_CHARACTERS], plain):
        raise ConfigurationError(
            f"{file.name} may not set '{reached}'",
            where=str(file),
            why="configuration holds values only; this would let a file run code",
            fix="remove it; Hydra's own settings are given on the command line",
        )
    return OmegaConf.load(StringIO(text))


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    import yaml

    try:
        yield
    except (OSError, yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigurationError(f"{file.name} cannot be read as YAML", where=str(file), why=_reason(error)) from error


def misshapen(defaults: Any) -> Iterator[str]:
    """Entries of a defaults list that are neither a path nor one group with its choice by name."""
    if not isinstance(defaults, list):
        yield str(defaults)
        return
    for entry in defaults:
        if not (isinstance(entry, str) or (isinstance(entry, Mapping) and len(entry) == 1 and _is_choice(entry))):
            yield str(entry)


def _is_choice(entry: Mapping[Any, Any]) -> bool:
    choice = next(iter(entry.values()))
    return choice is None or all(isinstance(name, str) for name in (choice if isinstance(choice, list) else [choice]))


def reaches(config_path: str, header: str, values: Mapping[Any, Any]) -> Iterator[str]:
    """What in a file reaches for Hydra's own node, or names code; nothing for a file of values.

    config_path: the path by which Hydra asks for the file, whose folders become its package.
    """
    if "hydra" in _folders(config_path):
        yield config_path
    for line in header.splitlines():
        if re.match(r"\s*#\s*@", line) and "hydra" in line:
            yield line.strip()
    if "hydra" in values:
        yield "hydra"
    yield from _targets(values)
    defaults = values.get("defaults")
    for entry in defaults if isinstance(defaults, list) else []:
        yield from _default(entry)


def _targets(values: Any) -> Iterator[str]:
    if isinstance(values, Mapping):
        for key, value in values.items():
            if key == "_target_":
                yield key
            yield from _targets(value)
    elif isinstance(values, list):
        for value in values:
            yield from _targets(value)


def _default(entry: Any) -> Iterator[str]:
    """An entry of a defaults list is a path, or a group with its choice, each with `@PACKAGE` behind it."""
    for text in map(str, entry) if isinstance(entry, Mapping) else [str(entry)]:
        path, _, package = text.partition("@")
        group = path if isinstance(entry, Mapping) else _folders(path)
        if "hydra" in group or "hydra" in package or "$" in package:
            yield text


def _folders(config_path: str) -> str:
    return str(PurePosixPath(config_path).parent)


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return f"{problem} (line {mark.line + 1})" if mark is not None else str(problem)
