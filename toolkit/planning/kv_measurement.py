"""Measurements of keys and values as a worker writes them and calibration reads them: plain data.

A magnitude is counted in the bin that its float32 bits name, shifted right by 20: the exponent and the first three bits
of the mantissa. So every octave (power of two) has eight bins, their edges are exact, and one operation finds the bin.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

MEASUREMENT_SCHEMA = 1
MEASUREMENTS_FOLDER = "measurements"
"""Folder of a calibration inside the run's folder, which is the engine's working directory."""
CONTROL_FILE = "control.json"
"""In that folder: {"segment": NAME} while prompts of a segment run, {"segment": null} between them."""

BIN_SHIFT = 20
BINS = 1 << (31 - BIN_SHIFT)
NOT_FINITE = 0x7F800000 >> BIN_SHIFT
"""The first bin of infinities and NaN."""


@dataclass(frozen=True)
class Tally:
    """What one layer stored as keys or as values."""

    layer: str
    """The engine's name of the layer."""
    kind: str
    """`k` or `v`."""
    largest: float
    """Largest magnitude, exact."""
    bins: Mapping[int, int]
    """Number of elements by bin, without empty ones."""

    @property
    def count(self) -> int:
        """Number of elements."""
        return sum(self.bins.values())

    @property
    def not_finite(self) -> int:
        """Number of elements that are infinite or NaN."""
        return sum(count for number, count in self.bins.items() if number >= NOT_FINITE)


@dataclass(frozen=True)
class Measurement:
    """What one worker stored during one segment of the prompts."""

    segment: str
    rank: int
    world_size: int
    pid: int
    tokens: int
    """Tokens whose keys and values this worker stored, in the layer that stored most."""
    tallies: tuple[Tally, ...]

    @property
    def file_name(self) -> str:
        """The measurement's name in MEASUREMENTS_FOLDER."""
        return f"{self.segment}-rank{self.rank}-pid{self.pid}.json"

    def to_data(self) -> dict[str, Any]:
        """The measurement as plain data (schema MEASUREMENT_SCHEMA)."""
        return {"schema": MEASUREMENT_SCHEMA, **asdict(self)}


def measurement_from(data: Any) -> Measurement:
    """A measurement from plain data; ValueError says what does not fit."""
    if not isinstance(data, dict) or data.get("schema") != MEASUREMENT_SCHEMA:
        found = data.get("schema") if isinstance(data, dict) else None
        raise ValueError(f"a measurement has schema {found!r}, and {MEASUREMENT_SCHEMA} is read")
    try:
        values = {entry.name: data[entry.name] for entry in fields(Measurement)}
        tallies = tuple(_tally(entry) for entry in values.pop("tallies"))
        return Measurement(tallies=tallies, **values)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"a measurement does not fit: {error!r}") from None


def lower_edge(number: int) -> float:
    """The smallest magnitude of a bin."""
    return float(struct.unpack("<f", struct.pack("<I", number << BIN_SHIFT))[0])


def _tally(data: Mapping[str, Any]) -> Tally:
    bins = {int(number): int(count) for number, count in data["bins"].items()}
    return Tally(str(data["layer"]), str(data["kind"]), float(data["largest"]), bins)
