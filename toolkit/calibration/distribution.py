"""The distribution of magnitudes in one layer's keys or values, and what a scale does to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from toolkit.planning.kv_measurement import NOT_FINITE, Tally, lower_edge
from toolkit.views.scales.float32 import E4M3_MAX

E4M3_NORMAL = 2.0**-6
"""The smallest quotient with all of E4M3's four significant bits; those below lie 2^-9 apart."""
E4M3_LOST = 2.0**-10
"""Up to here a quotient becomes zero: half of E4M3's smallest value, 2^-9, ties to even."""


@dataclass(frozen=True)
class Distribution:
    """Counts by bin (kv_measurement.py), and the exact largest magnitude."""

    largest: float = 0.0
    bins: Mapping[int, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of elements."""
        return sum(self.bins.values())

    @property
    def not_finite(self) -> int:
        """Number of infinities and NaN."""
        return sum(count for number, count in self.bins.items() if number >= NOT_FINITE)

    def bound(self, share: float) -> float:
        """A magnitude that at least this share (0..1) of the elements does not exceed.

        The upper edge of the bin that holds the quantile, so at most an eighth above it; never above the largest.
        """
        wanted, seen = share * self.count, 0
        for number in sorted(self.bins):
            seen += self.bins[number]
            if seen >= wanted:
                return min(self.largest, lower_edge(number + 1))
        return self.largest

    def saturated(self, scale: float) -> float:
        """The share (0..1) that E4M3 clips at this scale, without the part of one bin in which the limit lies."""
        limit = E4M3_MAX * scale
        return self._share(number for number in self.bins if lower_edge(number) > limit)

    def lost(self, scale: float) -> float:
        """The share (0..1) that is not zero and becomes zero at this scale, likewise."""
        limit = E4M3_LOST * scale
        return self._share(number for number in self.bins if number > 0 and lower_edge(number + 1) <= limit)

    def subnormal(self, scale: float) -> float:
        """The share (0..1) that keeps fewer than four significant bits at this scale and is not lost, likewise."""
        low, high = E4M3_LOST * scale, E4M3_NORMAL * scale
        return self._share(number for number in self.bins if low < lower_edge(number + 1) <= high)

    def octaves(self) -> dict[str, int]:
        """Counts by power of two: `-3` holds magnitudes from 1/8 up to 1/4; `zero` those below float32's range."""
        found: Counter[str] = Counter()
        for number, count in sorted(self.bins.items()):
            found["zero" if number < 8 else str((number >> 3) - 127)] += count
        return dict(found)

    def _share(self, numbers: Iterable[int]) -> float:
        return sum(self.bins[number] for number in numbers) / self.count if self.count else 0.0


def merged(tallies: Iterable[Tally | Distribution]) -> Distribution:
    """All of them as one."""
    bins: Counter[int] = Counter()
    largest = 0.0
    for tally in tallies:
        bins.update(tally.bins)
        largest = max(largest, tally.largest)
    return Distribution(largest, dict(sorted(bins.items())))
