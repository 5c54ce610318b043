"""Groups for layouts in which one block holds all layers of its group side by side, at unequal pages.

Follows vLLM 0.32 (v1/core/kv_cache_utils.py: _get_packed_kv_cache_groups). Qwen4Exp needs it: its compressed keys lie
beside the pages of its main keys and values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolkit.errors import ConfigurationError
from toolkit.planning.capacity.caches import Cache, RingCache, SlidingCache, StateCache, ceil_div, same_type


@dataclass(frozen=True)
class Bucket:
    """Layers of one type, by the size of their page."""

    layers: Mapping[str, Cache]

    @property
    def names_by_page(self) -> Mapping[int, list[str]]:
        """Layer names for each page size."""
        found: dict[int, list[str]] = {}
        for name, cache in self.layers.items():
            found.setdefault(cache.page_bytes, []).append(name)
        return found

    @property
    def balanced(self) -> bool:
        """Whether every page size has as many layers: a pattern that repeats."""
        return len({len(names) for names in self.names_by_page.values()}) == 1

    @property
    def repeats(self) -> int:
        """Layers of the page size that has most."""
        return max(len(names) for names in self.names_by_page.values())

    def widest_group_bytes(self, groups: int) -> int:
        """Bytes of the largest of `groups` groups."""
        return sum(ceil_div(len(names), groups) * page for page, names in self.names_by_page.items())


def pack_layers(layers: Mapping[str, Cache]) -> tuple[Mapping[str, Cache], ...]:
    """Divide layers of unequal pages into groups that fill one block about equally.

    Raises ConfigurationError where the engine would lose layers on the way, and stop.
    """
    buckets = _buckets(layers)
    repeats = _repeats_per_group(buckets)
    anchor = max(
        bucket.widest_group_bytes(len(bucket.layers) if _is_state(bucket, repeats) else _splits(bucket, repeats))
        for bucket in buckets
    )
    found: list[Mapping[str, Cache]] = []
    for bucket in buckets:
        count = _splits(bucket, repeats)
        if _is_state(bucket, repeats):
            first = next(iter(bucket.layers.values()))
            states = max(anchor // first.page_bytes, 1)
            count = max(count, ceil_div(len(bucket.layers), states))
        found += _divide(bucket, count)
    if sum(len(group) for group in found) < len(layers) or not all(found):
        raise ConfigurationError(
            "The engine cannot divide the layers of this model into KV groups: one type has unequal pages and counts.",
            where="limits.block_size",
            fix="choose another block size, or draft without layers of another page size",
        )
    return tuple(found)


def least_padding(counts: Sequence[int], at_least: int) -> int:
    """Return the group size, from `at_least` to the largest count, that leaves fewest empty places; the larger of two.

    Each count is rounded up to a multiple of the size, and the difference is what stays empty.
    """
    sizes = range(max(1, at_least), max(counts) + 1)
    if not sizes:
        return at_least
    return min(sizes, key=lambda size: (sum(-count % size for count in counts), -size))


def _buckets(layers: Mapping[str, Cache]) -> tuple[Bucket, ...]:
    found: list[dict[str, Cache]] = []
    for name, cache in layers.items():
        home = next((bucket for bucket in found if same_type(next(iter(bucket.values())), cache)), None)
        if home is None:
            found.append({name: cache})
        else:
            home[name] = cache
    return tuple(Bucket(bucket) for bucket in found)


def _repeats_per_group(buckets: Sequence[Bucket]) -> int | None:
    """Return how often a group repeats the layer pattern; None where no type mixes page sizes."""
    floor = max((b.repeats for b in buckets if b.balanced and len(b.names_by_page) > 1), default=0)
    if floor == 0:
        return None
    return least_padding([bucket.repeats for bucket in buckets if bucket.balanced], at_least=floor)


def _splits(bucket: Bucket, repeats: int | None) -> int:
    return ceil_div(bucket.repeats, repeats) if bucket.balanced and repeats is not None else 1


def _is_state(bucket: Bucket, repeats: int | None) -> bool:
    """Say whether a bucket may be divided further: down to one state in a group."""
    first = next(iter(bucket.layers.values()))
    return isinstance(first, StateCache | RingCache) or (repeats is None and isinstance(first, SlidingCache))


def _divide(bucket: Bucket, count: int) -> list[Mapping[str, Cache]]:
    if count == 1:
        return [bucket.layers]
    patterns = list(zip(*bucket.names_by_page.values(), strict=False))
    return [
        {name: bucket.layers[name] for pattern in patterns[start::count] for name in pattern} for start in range(count)
    ]
