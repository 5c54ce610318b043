"""A target in tokens or in requests at once, turned into the bytes of a KV cache that meets it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.planning.capacity import for_concurrency, for_tokens, plan_pool, with_memory
from toolkit.planning.geometry.model import ModelGeometry
from toolkit.planning.kv_memory import CPU_VARIABLE, kv_cache_is_told
from toolkit.planning.plan import Finding, Severity

MOST_TOKENS, MOST_REQUESTS = 10**12, 10**6
"""Far beyond any machine; above them the division that the engine makes would be no whole number of blocks."""


@dataclass(frozen=True)
class Targeted:
    """A deployment whose targets are met, or the reasons why none can be."""

    config: DeploymentConfig
    findings: tuple[Finding, ...] = ()


def has_target(config: DeploymentConfig) -> bool:
    """Whether the deployment names one."""
    return config.limits.for_tokens is not None or config.limits.for_concurrency is not None


def wrong_targets(config: DeploymentConfig) -> tuple[Finding, ...]:
    """What keeps the targets from meaning anything."""
    limits = config.limits
    if not has_target(config):
        return ()
    found: list[Finding] = []
    for name, value, most, some in (
        ("for_tokens", limits.for_tokens, MOST_TOKENS, limits.max_model_len),
        ("for_concurrency", limits.for_concurrency, MOST_REQUESTS, limits.max_num_seqs),
    ):
        if value is not None and not 0 < value <= most:
            message = f"{value} is no target: it lies above 0 and is at most {most:,}"
            fix = f"name one that is, such as limits.{name}={max(1, some)}, or none"
            found.append(Finding("target-out-of-range", Severity.refuse, f"limits.{name}", message, fix))
    if kv_cache_is_told(config):
        where = "limits.for_tokens" if limits.for_tokens is not None else "limits.for_concurrency"
        message = "the cache's bytes are given already, so a target has nothing to decide"
        fix = f"limits.kv_cache_memory_bytes=null (and on engine=cpu no {CPU_VARIABLE}), or no target"
        found.append(Finding("target-and-memory", Severity.refuse, where, message, fix))
    return tuple(found)


def meet(config: DeploymentConfig, geometry: ModelGeometry, draft: ModelGeometry | None) -> Targeted:
    """The same deployment with the fewest bytes that meet its targets; with both, the larger of the two.

    Raises ConfigurationError where the model's cache is not known.
    """
    limits = config.limits
    if not has_target(config):
        return Targeted(config)
    pool = plan_pool(config, geometry, draft)
    solutions = []
    if limits.for_tokens is not None:
        solutions.append((for_tokens(pool, limits.for_tokens), f"limits.for_tokens={limits.for_tokens}"))
    if limits.for_concurrency is not None:
        solved = for_concurrency(pool, limits.for_concurrency)
        solutions.append((solved, f"limits.for_concurrency={limits.for_concurrency:g}"))
    found, asked = max(solutions, key=lambda pair: pair[0].memory_bytes)
    takes = f"{asked} takes"
    if found.memory_bytes < pool.smallest_memory:
        found = with_memory(pool, pool.smallest_memory)
        takes = f"{asked} is less than the engine starts with (one full request and the null block); that takes"
    message = (
        f"{takes} {found.memory_bytes:,} bytes on each rank: {found.tokens:,} tokens, "
        f"{found.concurrency:.2f} full requests at once"
    )
    told = Finding("cache-target", Severity.info, asked.partition("=")[0], message)
    return Targeted(replace(config, limits=replace(limits, kv_cache_memory_bytes=found.memory_bytes)), (told,))
