"""A stranger's configuration folder must not run code.

Hydra itself instantiates `_target_` entries below its own `hydra` key (launchers, sweepers, callbacks) before any verb
runs, so files of a `--config-dir` that reach for them are refused before Hydra reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from toolkit.errors import ConfigurationError


def refuse_code(arguments: Sequence[str]) -> None:
    """Raise ConfigurationError if a file of a `--config-dir` among the arguments could make Hydra run code."""
    for folder in config_dirs(arguments):
        for file in sorted(folder.rglob("*.y*ml")):
            for key in _forbidden(_load(file)):
                raise ConfigurationError(
                    f"{file.name} may not set '{key}'",
                    where=str(file),
                    why="configuration holds values only; this key would make Hydra run code",
                    fix="remove the key from the file",
                )


def config_dirs(arguments: Sequence[str]) -> Iterator[Path]:
    """Folders named by `--config-dir DIR`, `-cd DIR` and `--config-dir=DIR`, abbreviations of the word included."""
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name == "-cd" or (name.startswith("--config-d") and "--config-dir".startswith(name)):
            path = value if equals else next(iter(arguments[index + 1 : index + 2]), "")
            if path:
                yield Path(path)


def _load(file: Path) -> Any:
    import yaml

    try:
        return yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(
            f"{file.name} cannot be read as YAML", where=str(file), why=str(error).splitlines()[0]
        ) from error


def _forbidden(values: Any) -> Iterator[str]:
    """Keys that Hydra would act on: `_target_` anywhere, `hydra` at the top or in the defaults list."""
    if isinstance(values, dict):
        for key, value in values.items():
            name = str(key)
            if name in ("_target_", "hydra") or name.startswith(("hydra.", "hydra/")):
                yield name
            elif name == "defaults":
                yield from _forbidden_defaults(value)
            else:
                yield from _forbidden(value)
    elif isinstance(values, list):
        for value in values:
            yield from _forbidden(value)


def _forbidden_defaults(entries: Any) -> Iterator[str]:
    for entry in entries if isinstance(entries, list) else []:
        for name in entry if isinstance(entry, dict) else [entry]:
            group = str(name).removeprefix("override ").removeprefix("optional ").strip().lstrip("/")
            if group.partition("/")[0].partition("@")[0] == "hydra":
                yield str(name)
