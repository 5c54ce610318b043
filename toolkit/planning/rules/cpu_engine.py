"""Rules about the CPU engine's own variables: its cache's size, and where the threads of each rank run."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.config.schema.engine import EngineName
from toolkit.counted import counted
from toolkit.planning.kv_memory import CPU_VARIABLE, MOST_GIB, cpu_space
from toolkit.planning.plan import Severity
from toolkit.planning.rules.rule import Context, Problem, Rule, no_shapes, unknown

BINDING = "VLLM_CPU_OMP_THREADS_BIND"
FP8_RUN = 32
"""Elements of a head that FP8 attention takes at a time."""
SIMULATED = "VLLM_CPU_SIM_MULTI_NUMA"
"""Divides the cores as if each rank had a node, unless it is 0."""
BINDS_TO_NODES, BINDS_NOTHING = "auto", "nobind"


def kv_space_unreadable(context: Context) -> Iterator[Problem]:
    """The engine reads whole GiB, and ends at once where they are none."""
    engine = context.config.engine
    text = engine.environment.get(CPU_VARIABLE, "")
    if engine.name is EngineName.cpu and text and cpu_space(context.config) is None:
        yield Problem(
            f"engine.environment.{CPU_VARIABLE}",
            f"'{text[:20]}' is no number of GiB from 1 to {MOST_GIB:,}",
            f"leave {CPU_VARIABLE} out and set limits.kv_cache_memory_bytes, which takes bytes",
        )


def ranks_over_nodes(context: Context) -> Iterator[Problem]:
    """Unless it is told where threads run, the engine gives each rank a memory node of its own, or ends."""
    config, nodes = context.config, context.machine.numa_nodes
    ranks, binding = config.limits.tensor_parallel, config.engine.environment.get(BINDING, BINDS_TO_NODES)
    if config.engine.name is not EngineName.cpu or ranks < 2 or binding == BINDS_NOTHING:
        return
    where, fix = "limits.tensor_parallel", f"+engine.environment.{BINDING}={BINDS_NOTHING} lets threads run anywhere"
    if binding != BINDS_TO_NODES:
        lists = len(binding.split("|"))
        if lists != ranks:
            message = f"{BINDING} has {counted(lists, 'list')} of cores and there are {ranks} ranks"
            yield Problem(f"engine.environment.{BINDING}", message, f"write a list for each rank, or {BINDS_NOTHING}")
    elif config.engine.environment.get(SIMULATED, "0") != "0":
        return
    elif nodes is None:
        yield unknown(where, f"it is not known whether this machine has {ranks} memory nodes", fix)
    elif nodes < ranks:
        yield Problem(where, f"{ranks} ranks want a memory node each, and this machine has {nodes}", fix)


def fp8_heads(context: Context) -> Iterator[Problem]:
    """The CPU engine's FP8 attention takes heads in runs of 32 elements."""
    config = context.config
    if config.engine.name is not EngineName.cpu or not config.kv.dtype.startswith("fp8_"):
        return
    if context.geometry is None:
        yield no_shapes()
        return
    size = context.geometry.attention.head_dim
    if size % FP8_RUN:
        yield Problem(
            "kv.dtype",
            f"the CPU engine's FP8 cache takes heads of a multiple of {FP8_RUN} elements, and these have {size}",
            "use kv=float16",
        )


RULES = (
    Rule(
        "fp8-heads-on-cpu",
        "An FP8 cache on the CPU has heads that fit",
        Severity.refuse,
        fp8_heads,
        "vLLM 0.32 v1/attention/backends/cpu_attn.py",
    ),
    Rule(
        "kv-space-unreadable",
        "The CPU engine's cache is a number of GiB",
        Severity.refuse,
        kv_space_unreadable,
        "vLLM 0.32 platforms/cpu.py: check_and_update_config",
    ),
    Rule(
        "ranks-over-nodes",
        "The CPU engine's ranks have a place for their threads",
        Severity.refuse,
        ranks_over_nodes,
        "vLLM 0.32 utils/ompmultiprocessing.py: _get_autobind_cpu_ids",
    ),
)
