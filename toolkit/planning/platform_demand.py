"""What the plan asks of the platform.

vLLM picks its platform before any configuration exists, in every process it starts, so this one wish travels in the
environment; everything else arrives with vLLM's own `--additional-config`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

VARIABLE = "VOLTA_PLATFORM"


class Demand(Enum):
    """How much the one who starts vLLM insists on this platform."""

    none = ""
    """Nobody asked: the platform is active where every visible GPU is a V100, and silent elsewhere."""
    v100 = "v100"
    """`engine=v100`: it must be active, on V100s alone."""
    any_gpu = "v100_on_any_gpu"
    """`engine.prove_on_any_gpu`: it must be active, and reports capability 7.0 on newer GPUs too."""


def read(environment: Mapping[str, str]) -> Demand:
    """The demand in an environment. Raises ValueError for a text that is none."""
    return Demand(environment.get(VARIABLE, ""))
