"""How vLLM compiles the model and which CUDA graphs it captures, by its own rules, where nothing else is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from toolkit.config.schema.engine import EngineName
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.planning.extra_arguments import LARGEST_GRAPH, begins, graph_sizes, value_of

DECIDES = (
    "--compilation-config", "-cc", "-O", "--optimization-level", "--cudagraph", "--max-cudagraph", "--performance-mode",
    "--kv-transfer-config",
)  # fmt: skip
"""How arguments begin that decide it in the plan's place."""


@dataclass(frozen=True)
class Graphs:
    """What a worker reports of compilation; vLLM's names. None where it is not known before the start."""

    compilation: str | None = None
    """Its compilation mode."""
    mode: str | None = None
    """Its mode of CUDA graphs."""
    sizes: tuple[int, ...] | None = None
    """Tokens of each captured graph."""


def expected_graphs(config: DeploymentConfig) -> Graphs:
    """What follows from the configuration (vLLM 0.32: platforms/cpu.py and config/vllm.py, _set_cudagraph_sizes).

    Drafts add sizes of their own, which are left out here.
    """
    engine = config.engine
    if begins(engine.extra_arguments, DECIDES):
        return Graphs()
    if not engine.compile:
        return Graphs("NONE", "NONE", ())
    if engine.name is EngineName.cpu:
        return Graphs("DYNAMO_TRACE_ONCE", "NONE", ())
    drafts = config.speculative.method != "none"
    return Graphs("VLLM_COMPILE", "FULL_AND_PIECEWISE", None if drafts else capture_sizes(config))


def capture_sizes(config: DeploymentConfig) -> tuple[int, ...]:
    """Rows of the graphs for any step, ascending, as vLLM 0.32 chooses them (config/vllm.py, _set_cudagraph_sizes)."""
    arguments, limits = config.engine.extra_arguments, config.limits
    rows, told = limits.max_num_batched_tokens, value_of(arguments, "--max-cudagraph-capture-size")
    listed = graph_sizes(arguments)
    if listed:
        return tuple(sorted({size for size in listed if size <= rows}))
    query = 1 + config.speculative.tokens
    asked = int(told) if told is not None and told.isdecimal() else None
    most = min(rows, asked if asked is not None else min(2 * limits.max_num_seqs * query, LARGEST_GRAPH))
    sizes = set(_strides(most))
    if rows <= most:
        sizes.add(rows)
    if asked is None:
        widest = min(limits.max_num_seqs, LARGEST_GRAPH)
        requests = {*_strides(widest), widest}
        uniform = {count * query for count in requests} if query > 1 else {limits.max_num_seqs}
        sizes |= {size for size in uniform if size <= most}
    return tuple(sorted(sizes))


def _strides(most: int) -> Iterator[int]:
    """1, 2, 4, every 8th up to 256, and then every 16th."""
    yield from (size for size in (1, 2, 4) if size <= most)
    yield from range(8, min(most + 1, 256), 8)
    yield from range(256, most + 1, 16)
