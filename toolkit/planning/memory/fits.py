"""Whether a budget fits into the memories that it is for."""

from __future__ import annotations

import math
from collections.abc import Iterator

from toolkit.config.schema.engine import EngineName
from toolkit.config.schema.limits import EmbeddingPlace
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.machine.facts import MachineFacts
from toolkit.planning.budget import Budget, Place
from toolkit.planning.memory.planner import KV
from toolkit.planning.plan import Capacity, Finding, Severity

GIB = 2**30


def device_limit(config: DeploymentConfig) -> int | None:
    """Bytes of one GPU that the engine may take; None where the deployment names no GPU memory.

    An engine that is told its cache's bytes may take the whole GPU; one that profiles stays within its share.
    """
    memory = config.hardware.gpu_memory_bytes
    if config.engine.name is not EngineName.v100 or memory <= 0:
        return None
    if config.limits.kv_cache_memory_bytes is not None:
        return memory
    return int(memory * config.limits.gpu_memory_utilization)


def limited(config: DeploymentConfig, budget: Budget) -> Budget:
    """The terms that `device_limit` bounds: all of them, or those in the share that the engine profiles."""
    return budget if config.limits.kv_cache_memory_bytes is not None else budget.in_share()


def least_needed(budget: Budget, capacity: Capacity) -> int:
    """Bytes of the terms without margins, and of a cache that holds one full request and the null block."""
    if any(term.purpose == KV for term in budget.terms):
        return budget.total()
    return budget.total() + (capacity.blocks_per_request + 1) * capacity.bytes_per_block


def memory_findings(
    config: DeploymentConfig, budget: Budget, capacity: Capacity, machine: MachineFacts
) -> Iterator[Finding]:
    """What does not fit into a GPU, and what does not fit beside it."""
    yield from _device(config, budget, capacity)
    yield from _share(config, budget)
    yield from _host(config, budget, machine)


def _device(config: DeploymentConfig, budget: Budget, capacity: Capacity) -> Iterator[Finding]:
    limit = device_limit(config)
    if limit is None:
        return
    bounded = limited(config, budget)
    least, needed = (least_needed(each, capacity) for each in (bounded.certain(), bounded))
    margins = bounded.most() - bounded.total()
    yield from _profiled(config, bounded, capacity, limit)
    where = "memory of one rank"
    if least > limit:
        yield Finding(
            "gpu-memory-short",
            Severity.refuse,
            where,
            f"{least / GIB:.2f} GiB are needed at the least, and the engine may take {limit / GIB:.2f} GiB of a GPU",
            "plan fit=true proposes changes that make it fit",
        )
    elif needed + margins > limit:
        yield Finding(
            "gpu-memory-tight",
            Severity.warn,
            where,
            f"{needed / GIB:.2f} GiB are needed, {(needed + margins) / GIB:.2f} GiB with all margins, and the engine "
            f"may take {limit / GIB:.2f} GiB of a GPU",
            "leave more room: a shorter context, fewer sequences, a smaller cache",
        )


def _profiled(config: DeploymentConfig, budget: Budget, capacity: Capacity, limit: int) -> Iterator[Finding]:
    """What the engine's own profiling will find, where the plan does not tell it the cache's bytes."""
    if capacity.blocks is not None:
        return
    rooms = [max(0, limit - taken) for taken in (budget.most(), budget.total())]
    requests = [room // capacity.bytes_per_block / capacity.blocks_per_request for room in rooms]
    tokens = [int(count * config.limits.max_model_len) for count in requests]
    yield Finding(
        "capacity-estimate",
        Severity.info,
        "limits.gpu_memory_utilization",
        f"{limit / GIB:.2f} GiB of a GPU leave {rooms[0] / GIB:.2f} to {rooms[1] / GIB:.2f} GiB for the cache: "
        f"{tokens[0]:,} to {tokens[1]:,} tokens, {requests[0]:.2f} to {requests[1]:.2f} full requests at once",
        "limits.for_tokens or limits.for_concurrency give the engine exact bytes",
    )


def _share(config: DeploymentConfig, budget: Budget) -> Iterator[Finding]:
    """The engine starts only where its share is free, and looks after its context and communicators are made."""
    limits, memory = config.limits, config.hardware.gpu_memory_bytes
    beside = budget.beside_share()
    if device_limit(config) is None or not beside.terms or not 0 <= limits.gpu_memory_utilization <= 1:
        return
    left = memory - math.ceil(memory * limits.gpu_memory_utilization)
    if beside.most() <= left:
        return
    where = "limits.gpu_memory_utilization"
    said = (
        f"the engine asks for {limits.gpu_memory_utilization:g} of a GPU to be free once {_listed(beside)} are there, "
        f"which take {beside.total() / GIB:.2f} to {beside.most() / GIB:.2f} GiB; {left / GIB:.2f} GiB are left "
        "beside that share"
    )
    fitting = math.floor(100 * max(0, memory - beside.most()) / memory) / 100
    fix = f"set limits.gpu_memory_utilization={fitting}, also where the cache's bytes are told"
    if beside.total() > left:
        yield Finding("gpu-share-short", Severity.refuse, where, said, fix)
    else:
        yield Finding("gpu-share-tight", Severity.warn, where, said, fix)


def _listed(budget: Budget) -> str:
    return " and ".join(term.purpose for term in budget.terms)


def _host(config: DeploymentConfig, budget: Budget, machine: MachineFacts) -> Iterator[Finding]:
    if config.engine.name is not EngineName.v100:
        return
    ranks = config.limits.tensor_parallel
    needed = budget.total(Place.host) * ranks
    place = "limits.ngram_embedding"
    if needed and "memory" in machine.unread:
        unread = "not checked, as this machine's memory could not be read"
        yield Finding("host-memory-short", Severity.unchecked, place, unread)
    elif needed > machine.memory_bytes:
        yield Finding(
            "host-memory-short",
            Severity.warn,
            place,
            f"{needed / GIB:.2f} GiB stay in the machine's memory, which has {machine.memory_bytes / GIB:.2f} GiB",
            "limits.ngram_embedding=gpu if the GPUs have room, or a machine with more memory",
        )
    locked = sum(term.bytes for term in budget.terms if term.locked)
    if locked and machine.lockable_bytes is None:
        unread = "not checked, as it is not known how much a process may lock"
        yield Finding("locked-memory-short", Severity.unchecked, "ulimit -l", unread)
    elif machine.lockable_bytes is not None and 0 <= machine.lockable_bytes < locked:  # negative: no limit is set
        yield Finding(
            "locked-memory-short",
            Severity.warn,
            "ulimit -l",
            f"each rank locks {locked / GIB:.2f} GiB of host memory, and a process may lock "
            f"{machine.lockable_bytes / GIB:.2f} GiB",
            "ulimit -l unlimited (LimitMEMLOCK=infinity in a systemd unit, --ulimit memlock=-1 with docker)",
        )
    if config.limits.ngram_embedding is EmbeddingPlace.disk and budget.total(Place.disk):
        yield Finding(
            "embedding-on-disk",
            Severity.refuse,
            "limits.ngram_embedding",
            f"vLLM {config.engine.version} keeps the n-gram embedding's table on GPUs or in locked memory, not on disk",
            "limits.ngram_embedding=pinned or gpu",
        )
