"""How vLLM compiles the model and which CUDA graphs it captures, by its own rules, where nothing else is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from toolkit.config.schema.engine import EngineName
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.planning.extra_arguments import LARGEST_GRAPH

DECIDES = (
    "--compilation-config", "-cc", "-O", "--optimization-level", "--cudagraph", "--max-cudagraph", "--performance-mode",
    "--enforce-eager", "--no-enforce-eager", "--max-num-seqs", "--max-num-batched-tokens", "--speculative-config",
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
    engine, limits = config.engine, config.limits
    if any(argument.startswith(DECIDES) for argument in engine.extra_arguments):
        return Graphs()
    if not engine.compile:
        return Graphs("NONE", "NONE", ())
    if engine.name is EngineName.cpu:
        return Graphs("DYNAMO_TRACE_ONCE", "NONE", ())
    drafts = config.speculative.method != "none"
    sizes = None if drafts else capture_sizes(limits.max_num_seqs, limits.max_num_batched_tokens)
    return Graphs("VLLM_COMPILE", "FULL_AND_PIECEWISE", sizes)


def capture_sizes(max_num_seqs: int, max_num_batched_tokens: int) -> tuple[int, ...]:
    """Tokens of each graph that is captured where every request decodes one token in a step."""
    ceiling = min(2 * max_num_seqs, LARGEST_GRAPH)
    sizes = set(_strides(min(ceiling, max_num_batched_tokens)))
    if max_num_batched_tokens <= ceiling:
        sizes.add(max_num_batched_tokens)
    if max_num_seqs <= min(ceiling, max_num_batched_tokens):
        sizes.add(max_num_seqs)
    return tuple(sorted(sizes))


def _strides(most: int) -> Iterator[int]:
    grid: Sequence[int] = (1, 2, 4, *range(8, 256, 8), *range(256, most + 1, 16))
    yield from (size for size in grid if size <= most)
