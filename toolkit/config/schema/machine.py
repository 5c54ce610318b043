"""Group `machine`: which machine a plan is checked against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional


@dataclass
class MachineConfig:
    """This machine, or a recorded one."""

    facts_file: Optional[str] = None
    """A file of machine facts that stands in for looking at this machine; `doctor output=json` records one."""
