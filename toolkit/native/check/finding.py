"""What a rule has to say about a wheel."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One fault: the rule's name, the member (or the wheel) concerned, what is wrong, and what to do about it."""

    rule: str
    where: str
    message: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.rule}: {self.where}: {self.message}"
