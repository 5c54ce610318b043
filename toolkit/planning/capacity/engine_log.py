"""The capacity that the engine prints after its start, and how far it is from the plan."""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolkit.planning.plan import Capacity

# vLLM 0.32, v1/core/kv_cache_utils.py: update_kv_cache_capacity.
_LINE = re.compile(
    r"KV cache size: (?P<tokens>[\d,]+) tokens, "
    r"Maximum concurrency for (?P<length>[\d,]+) tokens per request: (?P<concurrency>[\d.]+)x"
)


@dataclass(frozen=True)
class Reported:
    """One line of the engine's log."""

    tokens: int
    max_model_len: int
    concurrency: float
    """Rounded to two digits by the engine."""


def reported_in(log: str) -> Reported | None:
    """Find the last capacity that a log reports; None where it reports none."""
    found = list(_LINE.finditer(log))
    if not found:
        return None
    line = found[-1]
    return Reported(_whole(line["tokens"]), _whole(line["length"]), float(line["concurrency"]))


def blocks_apart(planned: Capacity, reported: Reported) -> int | None:
    """Return how many blocks more than planned the engine has; None where the plan does not know its memory.

    One block is what max_model_len / blocks_per_request tokens take, so tokens tell the blocks exactly.
    """
    if planned.blocks is None:
        return None
    return -(-reported.tokens * planned.blocks_per_request // reported.max_model_len) - planned.blocks


def _whole(text: str) -> int:
    return int(text.replace(",", ""))
