"""The capacity that the engine prints after its start, and how far it is from the plan."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from toolkit.counted import counted
from toolkit.planning.plan import Capacity, Finding, Severity

# vLLM 0.32, v1/core/kv_cache_utils.py: update_kv_cache_capacity.
_CAPACITY = re.compile(
    r"KV cache size: (?P<tokens>[\d,]+) tokens, "
    r"Maximum concurrency for (?P<length>[\d,]+) tokens per request: (?P<concurrency>[\d.]+)x"
)
# The same, v1/worker/gpu_worker.py: determine_available_memory; a line of each rank, to two digits.
_MEMORY = re.compile(r"Available KV cache memory: (?P<gib>\d+\.\d+) GiB")
_ROUNDING_GIB = 0.005
_WHERE = "the engine's log"


@dataclass(frozen=True)
class Reported:
    """What the engine's log says about its cache."""

    tokens: int
    max_model_len: int
    concurrency: float
    """Rounded to two digits by the engine."""
    available_gib: float | None = None
    """Memory that it found for the cache by profiling, of the rank with least; None where it was told the bytes."""


@dataclass(frozen=True)
class Comparison:
    """The engine's report beside the plan; what the receipt keeps."""

    reported: Reported | None
    blocks: int | None
    """The engine's blocks, from its tokens; None where they cannot be told."""
    blocks_apart: int | None
    """How many more than planned, negative where fewer; None where there is nothing to compare."""
    findings: tuple[Finding, ...]


def reported_in(lines: Iterable[str]) -> Reported | None:
    """Find the last capacity that a log reports; None where it reports none."""
    last: re.Match[str] | None = None
    available: list[float] = []
    for line in lines:
        last = _CAPACITY.search(line) or last
        if memory := _MEMORY.search(line):
            available.append(float(memory["gib"]))
    if last is None:
        return None
    least = min(available, default=None)
    return Reported(_whole(last["tokens"]), _whole(last["length"]), float(last["concurrency"]), least)


def compare(planned: Capacity | None, max_model_len: int, reported: Reported | None) -> Comparison:
    """Hold the engine's report against the plan; a difference of more than one block is a finding.

    planned:       the plan's capacity; None where the model's shapes are not known.
    max_model_len: tokens of the longest request that was planned for.
    """
    if reported is None:
        said = "it has no line with the size of the KV cache, so the plan's number is not confirmed"
        return Comparison(None, None, None, (Finding("capacity-not-reported", Severity.info, _WHERE, said),))
    if reported.max_model_len != max_model_len:
        said = f"it serves requests of {reported.max_model_len:,} tokens, and {max_model_len:,} were planned"
        fix = "look for what shortened them in the log, or set limits.max_model_len to the engine's number"
        return Comparison(reported, None, None, (Finding("context-differs", Severity.warn, _WHERE, said, fix),))
    if planned is None:
        return Comparison(reported, None, None, ())
    blocks, apart = blocks_of(planned, reported), blocks_apart(planned, reported)
    if apart is None or abs(apart) <= 1:
        return Comparison(reported, blocks, apart, ())
    return Comparison(reported, blocks, apart, (_difference(planned, reported, blocks, apart),))


def blocks_of(planned: Capacity, reported: Reported) -> int:
    """Return the engine's blocks, if it takes as many for one request as planned.

    One block is what max_model_len / blocks_per_request tokens take, so tokens tell the blocks exactly.
    """
    return -(-reported.tokens * planned.blocks_per_request // reported.max_model_len)


def blocks_apart(planned: Capacity, reported: Reported) -> int | None:
    """Return how many blocks more than planned the engine has.

    Where the plan left the memory to the engine's profiling, the planned blocks are those that the memory it then
    found holds, to the two digits that it prints. None where neither is known.
    """
    blocks = blocks_of(planned, reported)
    if planned.blocks is not None:
        return blocks - planned.blocks
    if reported.available_gib is None:
        return None
    fewest, most = (
        int((reported.available_gib + error) * 2**30) // planned.bytes_per_block
        for error in (-_ROUNDING_GIB, _ROUNDING_GIB)
    )
    return min(0, blocks - fewest) or max(0, blocks - most)


def _difference(planned: Capacity, reported: Reported, blocks: int, apart: int) -> Finding:
    expected = f"{reported.available_gib:.2f} GiB hold" if reported.available_gib is not None else "planned"
    if planned.blocks is not None:
        expected = f"planned ({planned.tokens:,} tokens, {planned.blocks:,} blocks)"
    said = (
        f"it reports a KV cache of {reported.tokens:,} tokens ({blocks:,} blocks), "
        f"{counted(abs(apart), 'block')} {'more' if apart > 0 else 'fewer'} than {expected}"
    )
    return Finding(
        "capacity-differs",
        Severity.warn,
        _WHERE,
        said,
        "go by the engine's number; an argument or a variable that the plan does not know changed it, or the plan's "
        "formula does not fit this engine, which is a bug to report with the receipt",
    )


def _whole(text: str) -> int:
    return int(text.replace(",", ""))
