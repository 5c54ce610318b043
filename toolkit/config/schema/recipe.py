"""What a recipe says about itself."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Optional


class RecipeStatus(Enum):
    """What is known of a recipe."""

    verified = "verified"
    unverified = "unverified"
    unsupported = "unsupported"


@dataclass
class RecipeConfig:
    """A recipe's status; serving an unsupported one is refused."""

    status: RecipeStatus = RecipeStatus.unverified
    """`verified` (served and checked), `unverified`, or `unsupported`."""
    verified_on: Optional[str] = None
    """verified: the date, YYYY-MM-DD."""
    evidence: Optional[str] = None
    """verified: the record that shows it, a path in the repository."""
    reason: Optional[str] = None
    """unverified or unsupported: why."""
