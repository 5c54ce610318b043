"""YAML as plain data: no tags that make objects, and no aliases that grow without end."""

from __future__ import annotations

from typing import Any

MAX_NODES = 100_000
"""Values of one file, every alias written out: aliases of aliases can make a small file huge."""


def load(text: str) -> Any:
    """The text's values; YAMLError, RecursionError or ValueError where it has none that are plain."""
    import yaml

    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return {}
        expanded_size(node)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def expanded_size(node: Any) -> int:
    """Nodes of a YAML tree with every alias written out. Raises ValueError for an endless or a huge one."""
    sizes: dict[int, int] = {}

    def size(node: Any) -> int:
        if id(node) in sizes:
            if sizes[id(node)] == 0:
                raise ValueError("an alias stands inside what it names")
            return sizes[id(node)]
        sizes[id(node)] = 0  # being counted
        children = node.value if isinstance(node.value, list) else []
        flat = (part for child in children for part in (child if isinstance(child, tuple) else (child,)))
        total = 1 + sum(size(child) for child in flat)
        if total > MAX_NODES:
            raise ValueError(f"it holds more than {MAX_NODES:,} values once its aliases are written out")
        sizes[id(node)] = total
        return total

    return size(node)
