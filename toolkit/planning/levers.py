"""What can be given up so that a plan fits, the cheapest loss first."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.config.schema.engine import EngineName
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.counted import counted
from toolkit.planning.plan import Plan
from toolkit.planning.rules.parallelism import MOST_RANKS
from toolkit.planning.targets import has_target

SHORTEST = 1024
"""Tokens below which a context is not worth proposing."""
LONGEST = 2**24
"""Tokens beyond the positions of any model."""
FEWEST_BATCHED = 256
_STEPS = 64
HIGHEST_UTILIZATION = 97
"""Percent of a GPU; the rest is the driver's and the display's."""


@dataclass(frozen=True)
class Change:
    """One option with another value."""

    group: str
    name: str
    value: Any
    override: str
    """What to type."""
    loss: str


@dataclass(frozen=True)
class Lever:
    """One option and its values, the mildest first."""

    changes: Callable[[DeploymentConfig, Plan], Sequence[Change]]
    """Of the deployment, and of the plan that was made of it."""
    unordered: bool = False
    """A later value need not fit where an earlier one does."""


def _limit(name: str, value: float, loss: str) -> Change:
    return Change("limits", name, value, f"limits.{name}={value}", loss)


def _gpus(config: DeploymentConfig, _: Plan) -> Sequence[Change]:
    """More of the GPUs that the profile has; the planner tries which numbers the model divides over."""
    used = config.limits.tensor_parallel
    if config.engine.name is not EngineName.v100 or used < 1:
        return []
    more = range(used + 1, min(config.hardware.gpu_count, MOST_RANKS) + 1)
    return [_limit("tensor_parallel", count, f"{counted(count - used, 'GPU')} that no rank uses") for count in more]


def _context(config: DeploymentConfig, _: Plan) -> Sequence[Change]:
    longest = config.limits.max_model_len
    step = 256 if longest > 2 * SHORTEST else 16
    lengths = range(min(longest - 1, LONGEST) // step * step, SHORTEST - 1, -step)
    return [_limit("max_model_len", length, f"{counted(longest - length, 'token')} of context") for length in lengths]


def _highest(config: DeploymentConfig, plan: Plan) -> int:
    """The percentage of a GPU that can be free once the engine's context and communicators are there."""
    memory = config.hardware.gpu_memory_bytes
    if memory <= 0:
        return HIGHEST_UTILIZATION
    return min(HIGHEST_UTILIZATION, 100 * (memory - plan.budget.beside_share().most()) // memory)


def _start(config: DeploymentConfig, plan: Plan) -> Sequence[Change]:
    """A smaller share, where the engine could not find as much free as it asks for."""
    highest, limits = _highest(config, plan), config.limits
    if config.engine.name is not EngineName.v100 or not 0 < highest < limits.gpu_memory_utilization * 100:
        return []
    loss = (
        "nothing, as the cache's bytes are told" if limits.kv_cache_memory_bytes is not None else "tokens in the cache"
    )
    return [_limit("gpu_memory_utilization", highest / 100, loss)]


def _target(config: DeploymentConfig, _: Plan) -> Sequence[Change]:
    """Smaller targets in steps of a sixty-fourth, down to one full request."""
    limits = config.limits
    if limits.for_concurrency is not None and limits.for_concurrency > 1:
        steps = [1 + (limits.for_concurrency - 1) * step / _STEPS for step in reversed(range(_STEPS))]
        return [_limit("for_concurrency", math.floor(count * 100) / 100, "requests at once") for count in steps]
    if limits.for_tokens is not None and limits.for_tokens > limits.max_model_len:
        beyond = limits.for_tokens - limits.max_model_len
        sizes = [limits.max_model_len + beyond * step // _STEPS for step in reversed(range(_STEPS))]
        return [_limit("for_tokens", size, "tokens in the cache") for size in sizes]
    return []


def _sequences(config: DeploymentConfig, _: Plan) -> Sequence[Change]:
    most = config.limits.max_num_seqs
    fewer = range(most - 1, 0, -1)
    return [_limit("max_num_seqs", count, f"{counted(most - count, 'request')} at once") for count in fewer]


def _batch(config: DeploymentConfig, _: Plan) -> Sequence[Change]:
    most = config.limits.max_num_batched_tokens
    sizes = range((most - 1) // FEWEST_BATCHED * FEWEST_BATCHED, FEWEST_BATCHED - 1, -FEWEST_BATCHED)
    return [_limit("max_num_batched_tokens", size, "speed of long prompts") for size in sizes]


def _kv_dtype(config: DeploymentConfig, _: Plan) -> Sequence[Change]:
    if config.kv.dtype != "float16":
        return []
    loss = "precision of keys and values"
    return [Change("kv", "dtype", dtype, f"kv={dtype}", loss) for dtype in ("fp8_e4m3", "fp8_e5m2")]


def _memory(config: DeploymentConfig, plan: Plan) -> Sequence[Change]:
    """A larger share of the GPU, or exactly the cache that one full request needs."""
    limits = config.limits
    if has_target(config):
        return []
    if config.engine.name is EngineName.v100 and limits.kv_cache_memory_bytes is None:
        begin = int(limits.gpu_memory_utilization * 100) + 1
        shares = [percent / 100 for percent in range(begin, _highest(config, plan) + 1)]
        return [_limit("gpu_memory_utilization", share, "room for anything else on the GPU") for share in shares]
    if plan.capacity is None:
        return []
    needed = (plan.capacity.blocks_per_request + 1) * plan.capacity.bytes_per_block
    loss = "memory for anything else" if needed > (limits.kv_cache_memory_bytes or 0) else "requests at once"
    return [_limit("kv_cache_memory_bytes", needed, loss)] if needed != limits.kv_cache_memory_bytes else []


LEVERS = (
    Lever(_gpus, unordered=True),
    Lever(_start),
    Lever(_target),
    Lever(_context),
    Lever(_sequences),
    Lever(_batch),
    Lever(_kv_dtype, unordered=True),
    Lever(_memory),
)
