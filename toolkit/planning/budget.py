"""A budget: what takes memory, how sure each number is, and what the plan does not decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any


class Place(Enum):
    """Which memory a term takes."""

    device = "device"
    """The GPU's; on the CPU engine, the machine's."""
    host = "host"
    """The machine's, beside a GPU's."""
    disk = "disk"
    """Files that are mapped and read on demand; spare memory of the machine caches them."""


@dataclass(frozen=True)
class Term:
    """One purpose on one rank."""

    purpose: str
    bytes: int
    source: str
    """Where the number comes from: a formula, the checkpoint's headers, or a published measurement."""
    margin: float = 0.0
    """Share by which the true number may be larger."""
    place: Place = Place.device
    locked: bool = False
    """Host memory that may not be paged out, which `ulimit -l` bounds for each process."""
    estimate: bool = False
    """It may as well be less, as it was not measured or is of another build: nothing is refused for its sake."""
    beside_share: bool = False
    """Taken before the engine looks how much of the GPU is free: beside the share that it then asks for, not in it."""

    @property
    def most(self) -> int:
        """Bytes with the whole margin."""
        return round(self.bytes * (1 + self.margin))


@dataclass(frozen=True)
class Budget:
    """One rank's memory by purpose."""

    terms: tuple[Term, ...] = ()
    unknown: tuple[str, ...] = ()
    """Purposes that take memory and that the plan does not decide; `total` and `most` are without them."""

    def beside_share(self) -> Budget:
        """The terms that are taken before the engine looks how much is free."""
        return Budget(tuple(term for term in self.terms if term.beside_share))

    def in_share(self) -> Budget:
        """The terms that the engine's share of the GPU has to hold."""
        return Budget(tuple(term for term in self.terms if not term.beside_share), self.unknown)

    def certain(self) -> Budget:
        """The terms that take at least their bytes."""
        return Budget(tuple(term for term in self.terms if not term.estimate), self.unknown)

    def total(self, place: Place = Place.device) -> int:
        """Bytes of all terms in one memory."""
        return sum(term.bytes for term in self.terms if term.place is place)

    def most(self, place: Place = Place.device) -> int:
        """Bytes of all terms in one memory with their margins."""
        return sum(term.most for term in self.terms if term.place is place)

    def by_purpose(self) -> Mapping[str, int]:
        """Bytes by purpose; what is not in the device's memory is named so."""
        return {_named(term): term.bytes for term in self.terms}

    def to_json(self) -> dict[str, Any]:
        """The budget as plain data; `total` and `most` are the device's."""
        terms = [{**asdict(term), "place": term.place.value, "most": term.most} for term in self.terms]
        return {"terms": terms, "unknown": list(self.unknown), "total": self.total(), "most": self.most()}


def _named(term: Term) -> str:
    return term.purpose if term.place is Place.device else f"{term.purpose} ({term.place.value})"
