"""Which file or override set each value.

Hydra keeps no record of this, so its list of merged files is gone through once more: the schema's default, then each
file in the order of merging, then the command line; the last to set a key is its origin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolkit.config.composition import Composition
from toolkit.errors import ConfigurationError

DEFAULT = "default"
COMMAND_LINE = "command line"


def origins(composition: Composition, keys: Sequence[str]) -> dict[str, str]:
    """Origin of every key: `default`, a file, or `command line: OVERRIDE`."""
    result = dict.fromkeys(keys, DEFAULT)
    for merged in composition.merged:
        file = find(f"{merged.config_path}.yaml", composition.folders)
        if file is not None and not _is_hydras(merged.package):
            prefix = f"{merged.package}." if merged.package else ""
            result |= dict.fromkeys(_covered(leaves(read(file), prefix), keys), str(file))
    for override in composition.overrides:
        result |= dict.fromkeys(_covered(overridden(override, keys), keys), f"{COMMAND_LINE}: {override}")
    return result


def find(name: str, search_path: Sequence[Path]) -> Path | None:
    """The file of that name on the search path; ConfigurationError where two folders have it."""
    found = [folder / name for folder in search_path if (folder / name).is_file()]
    if len(found) > 1:
        raise ConfigurationError(
            f"two files are named {name}", where=f"{found[0]} hides {found[1]}", fix="give your own another name"
        )
    return found[0] if found else None


def read(file: Path) -> Mapping[str, Any]:
    """A YAML file's values, without its defaults list."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    values = yaml.load(file.read_text(encoding="utf-8"), Loader=loader)  # noqa: S506 - both loaders are safe ones
    return {str(key): value for key, value in values.items() if key != "defaults"} if isinstance(values, dict) else {}


def leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Dotted keys of nested values; an empty mapping sets nothing."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def overridden(override: str, keys: Sequence[str]) -> Iterator[str]:
    """Keys that an override sets; none where it chooses a group's file, as that file is then the origin."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    parsed = OverridesParser.create().parse_override(override)
    key, value = parsed.key_or_group, parsed.value()
    is_group = "/" in key or key == "recipe" or any(known.startswith(f"{key}.") for known in keys if "." not in key)
    if isinstance(value, Mapping):
        yield from leaves(value, f"{key}.")
    elif not is_group:
        yield key


def _covered(changed: Iterable[str], keys: Sequence[str]) -> Iterator[str]:
    """Known keys that a set key is, lies inside (a free mapping) or covers (a whole group)."""
    for key in changed:
        for known in keys:
            if known == key or key.startswith(known + ".") or known.startswith(key + "."):
                yield known


def _is_hydras(package: str) -> bool:
    return package.partition(".")[0] == "hydra"
