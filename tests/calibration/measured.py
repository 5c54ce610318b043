"""Measurements made for one test."""

from __future__ import annotations

import struct

from toolkit.planning.kv_measurement import BIN_SHIFT, Measurement, Tally


def bin_of(value: float) -> int:
    return struct.unpack("<I", struct.pack("<f", abs(value)))[0] >> BIN_SHIFT


def tally(layer: str, kind: str, *values: float) -> Tally:
    bins: dict[int, int] = {}
    for value in values:
        bins[bin_of(value)] = bins.get(bin_of(value), 0) + 1
    finite = [abs(value) for value in values if abs(value) < float("inf")]
    return Tally(layer, kind, max(finite, default=0.0), bins)


def measurement(*tallies: Tally, rank: int = 0, world_size: int = 1, segment: str = "first-half") -> Measurement:
    return Measurement(segment, rank, world_size, 10 + rank, 3, tallies)


def layer(number: int, prefix: str = "model") -> str:
    return f"{prefix}.layers.{number}.self_attn.attn"
