"""Which layers share a block table.

All tables draw block numbers from one pool, so a block is as large as the largest group, and a request needs the sum
of its groups' blocks. Follows vLLM 0.32 (v1/core/kv_cache_utils.py: get_kv_cache_groups), the layouts in which each
layer owns a region of memory; layouts in which each block holds all layers are in `packing`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from toolkit.errors import ConfigurationError
from toolkit.planning.capacity.caches import AttentionCache, Cache, CompressedCache, Load, StateCache, same_type
from toolkit.planning.capacity.packing import least_padding, pack_layers

Layers = Mapping[str, Cache]


class Layout(Enum):
    """The order of layers and blocks in memory."""

    layers_outermost = "layers_outermost"
    """Each layer is one region; pages of all layers are made equal (LBNHC, LBHNC)."""
    blocks_outermost = "blocks_outermost"
    """Each block holds its group's layers side by side, at unequal pages (BLNHC, BLHNC)."""


class GroupSize(Enum):
    """How many layers share a table where layers are of several types."""

    fewest = "fewest"
    """As many as the type with fewest layers has; vLLM 0.32."""
    least_padding = "least_padding"
    """The size that leaves fewest empty places; the public V100 fork, after its pull requests 355 and 364."""


@dataclass(frozen=True)
class Group:
    """Layers with one block table."""

    layers: Layers

    @property
    def bytes_per_block(self) -> int:
        """Bytes of one block: its layers' pages."""
        return sum(cache.page_bytes for cache in self.layers.values())

    def blocks(self, load: Load) -> int:
        """Count the blocks that one request needs of this table."""
        return max(cache.blocks(load) for cache in self.layers.values())


def group_layers(
    layers: Layers, layout: Layout = Layout.layers_outermost, size: GroupSize = GroupSize.fewest
) -> tuple[Group, ...]:
    """Divide a model's layers into groups.

    Raises ConfigurationError where pages cannot be made equal.
    """
    caches = list(layers.values())
    if all(same_type(caches[0], cache) for cache in caches):
        return (Group(dict(layers)),)
    if layout is Layout.blocks_outermost and len({cache.page_bytes for cache in caches}) > 1:
        return tuple(Group(group) for group in pack_layers(layers))
    return _equal_page_groups(equal_pages(layers), _CHOOSE[size])


def equal_pages(layers: Layers) -> Layers:
    """Make every page as large as the largest: more tokens in a block where they divide, padding elsewhere."""
    largest = max(cache.page_bytes for cache in layers.values())
    return {name: _with_page(name, cache, largest) for name, cache in layers.items()}


def _with_page(name: str, cache: Cache, page: int) -> Cache:
    if cache.page_bytes == page:
        return cache
    if isinstance(cache, StateCache):
        return replace(cache, padded_page=page)
    if page % cache.page_bytes == 0:
        return replace(cache, block_tokens=cache.block_tokens * (page // cache.page_bytes))
    if isinstance(cache, AttentionCache) and not isinstance(cache, CompressedCache):
        return replace(cache, padded_page=page)
    raise ConfigurationError(
        f"The KV pages of this model cannot be made equal: layer {name} has {cache.page_bytes} bytes in a page that "
        f"should have {page}.",
        where="limits.block_size",
        fix="choose another block size, or an engine whose attention packs unequal pages into one block",
    )


def _equal_page_groups(layers: Layers, choose: Callable[[Sequence[int]], int]) -> tuple[Group, ...]:
    by_type: dict[Cache, list[str]] = {}
    for name, cache in layers.items():
        by_type.setdefault(cache, []).append(name)
    size = choose([len(names) for names in by_type.values()])
    groups: list[Group] = []
    for cache, names in by_type.items():
        count = -(-len(names) // size)
        groups += [Group(dict.fromkeys(names[start::count], cache)) for start in range(count)]
    return tuple(groups)


def _fewest(counts: Sequence[int]) -> int:
    """Return the smallest count, or the largest if that wastes little: below half as many again."""
    fewest, most = min(counts), max(counts)
    return most if most < 1.5 * fewest else fewest


def _least_padding(counts: Sequence[int]) -> int:
    return least_padding(counts, at_least=min(counts))


_CHOOSE = {GroupSize.fewest: _fewest, GroupSize.least_padding: _least_padding}
