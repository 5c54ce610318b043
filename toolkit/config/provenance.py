"""Which file or override set each value.

Hydra keeps no record of this, so the composition is read again from its own list of sources and choices: the
schema's default, then the chosen file of each group, the recipe, the command line; the last to set a key is its origin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

DEFAULT = "default"
COMMAND_LINE = "command line"


def origins(
    choices: Mapping[str, str], search_path: Sequence[Path], overrides: Sequence[str], keys: Sequence[str]
) -> dict[str, str]:
    """Origin of every key: `default`, a file below one of the search path's folders, or `command line: OVERRIDE`.

    choices: option by group, as Hydra settled them.
    overrides: the command line's overrides, such as `kv=fp8_e4m3` or `limits.max_num_seqs=4`.
    """
    result = dict.fromkeys(keys, DEFAULT)
    groups = [group for group in choices if group != "recipe" and not group.startswith("hydra/")]
    for group in [*groups, *(["recipe"] if "recipe" in choices else [])]:
        file = find(f"{group}/{choices[group]}.yaml", search_path)
        if file is None:
            continue
        prefix = "" if group == "recipe" else group + "."
        for key in leaves(read(file), prefix):
            for known in _covered(key, keys):
                result[known] = str(file)
    for override in overrides:
        key = override.lstrip("+~").partition("=")[0]
        if key not in choices:  # a group's choice names a file, and that file is the origin
            for known in _covered(key, keys):
                result[known] = f"{COMMAND_LINE}: {override}"
    return result


def find(name: str, search_path: Sequence[Path]) -> Path | None:
    """The first file of that name on the search path."""
    return next((folder / name for folder in search_path if (folder / name).is_file()), None)


def read(file: Path) -> Mapping[str, Any]:
    """A YAML file's values, without its defaults list."""
    from omegaconf import OmegaConf

    values = OmegaConf.to_container(OmegaConf.load(file), resolve=False)
    return {str(key): value for key, value in values.items() if key != "defaults"} if isinstance(values, dict) else {}


def leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Dotted keys of nested values."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _covered(key: str, keys: Sequence[str]) -> Iterator[str]:
    """Known keys that a set key is, lies inside (a free mapping) or covers (a whole group)."""
    for known in keys:
        if known == key or key.startswith(known + ".") or known.startswith(key + "."):
            yield known
