"""A budget: what takes memory, how sure each number is, and what has no number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Place(Enum):
    """Which memory a term takes."""

    device = "device"
    """The GPU's; on the CPU engine, the machine's."""
    host = "host"
    """The machine's, beside a GPU's."""


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

    @property
    def most(self) -> int:
        """Bytes with the whole margin."""
        return round(self.bytes * (1 + self.margin))


@dataclass(frozen=True)
class Budget:
    """One rank's memory by purpose."""

    terms: tuple[Term, ...]
    unknown: tuple[str, ...] = ()
    """Purposes that take memory and have no number yet; `most` is too small by them."""

    def total(self, place: Place = Place.device) -> int:
        """Bytes of all terms in one memory."""
        return sum(term.bytes for term in self.terms if term.place is place)

    def most(self, place: Place = Place.device) -> int:
        """Bytes of all terms in one memory with their margins."""
        return sum(term.most for term in self.terms if term.place is place)

    def by_purpose(self) -> Mapping[str, int]:
        """Bytes by purpose; host memory is named so."""
        return {
            term.purpose if term.place is Place.device else f"{term.purpose} (host)": term.bytes for term in self.terms
        }
