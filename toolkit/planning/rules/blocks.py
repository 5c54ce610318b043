"""Rules about blocks and steps: sizes that the engine takes and that quietly lose what was planned for."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.planning.capacity.engines import TRAITS
from toolkit.planning.extra_arguments import value_of
from toolkit.planning.plan import Severity
from toolkit.planning.rules.gpus import on_gpu
from toolkit.planning.rules.rule import Context, Problem, Rule, unknown
from toolkit.planning.switch_values import settle

FAST_ROWS = (8000, 8192)
"""Rows of one step for which the fast prefill of 256-element heads is taken."""
FAST_HEAD_DIM = 256
UNIT = 16
"""Tokens that a block is a multiple of on a V100."""
NO_BLOCK = "the size of a block is not known"


def block_size_unit(context: Context) -> Iterator[Problem]:
    """Attention kernels take a fixed number of tokens at a time, on every rank that shares a block."""
    size, dcp = context.config.limits.block_size, context.config.dcp.size
    unit = TRAITS[context.config.engine.name].kernel_block * dcp
    if size is not None and size % unit:
        yield Problem(
            "limits.block_size",
            f"{size} tokens are no multiple of {unit}, which the kernels take at a time",
            f"use limits.block_size={-(-size // unit) * unit}",
        )


def state_grid(context: Context) -> Iterator[Problem]:
    """Recurrent states are kept at the ends of blocks; a grid that misses them makes every look-up of a prefix fail."""
    text = value_of(context.config.engine.extra_arguments, "--mamba-block-size")
    if text is None or not text.isdecimal():
        return
    if not context.config.limits.prefix_caching:
        yield Problem(
            "engine.extra_arguments", "--mamba-block-size needs prefix caching", "set limits.prefix_caching=true"
        )
    elif context.block_tokens is None:
        yield unknown("engine.extra_arguments", NO_BLOCK)
    elif int(text) % context.block_tokens:
        yield Problem(
            "engine.extra_arguments",
            f"a state every {text} tokens and blocks of {context.block_tokens:,} never meet: no prefix is ever found",
            f"use a multiple of {context.block_tokens}, or leave --mamba-block-size out",
        )


def prefix_grid_coarse(context: Context) -> Iterator[Problem]:
    """A model with recurrent states reuses whole blocks alone, and these are large."""
    if not context.config.limits.prefix_caching:
        return
    if context.geometry is None or context.block_tokens is None:
        yield unknown("limits.prefix_caching", NO_BLOCK)
        return
    packed = context.geometry.indexer is not None and context.config.dcp.packed_pages
    grid = context.block_tokens * (1 if packed else context.config.dcp.size)
    if context.geometry.recurrent is not None and grid >= context.config.limits.max_model_len:
        yield Problem(
            "limits.prefix_caching",
            f"prefixes are reused in steps of {grid:,} tokens, and no request is longer: none ever is",
            "set limits.prefix_caching=false, which saves a state for each request",
        )


def chunk_loses_fast_prefill(context: Context) -> Iterator[Problem]:
    """Steps end where blocks end, and the fast prefill takes steps of 8,000 to 8,192 rows alone."""
    limits = context.config.limits
    if not on_gpu(context) or not _splits(context):
        return
    if context.geometry is None or context.block_tokens is None:
        yield unknown("limits.max_num_batched_tokens", NO_BLOCK)
        return
    if context.geometry.attention.head_dim != FAST_HEAD_DIM or limits.max_model_len < FAST_ROWS[0]:
        return
    stops = context.geometry.recurrent is not None and limits.prefix_caching
    block = context.block_tokens if stops else 1
    rows = limits.max_num_batched_tokens // block * block or limits.max_num_batched_tokens
    if not FAST_ROWS[0] <= rows <= FAST_ROWS[1]:
        yield Problem(
            "limits.max_num_batched_tokens",
            f"steps of {limits.max_num_batched_tokens:,} tokens in blocks of {block:,} prefill {rows:,} rows, and the "
            "fast route takes 8,000 to 8,192",
            _better(block),
        )


def _splits(context: Context) -> bool:
    values = {switch.name: switch.value for switch in settle(context.config, context.machine.environment)}
    return values["prefill_split_kv"]


def _better(block: int) -> str:
    """What brings steps into the fast range: a budget, and where no number of blocks does, the next block that fits."""
    if block == 1:
        return "set limits.max_num_batched_tokens=8192"
    larger = (size for size in range(UNIT, FAST_ROWS[1] + UNIT, UNIT) if size >= block)
    size = next((size for size in larger if FAST_ROWS[1] // size * size >= FAST_ROWS[0]), None)
    if size is None:
        return "set limits.max_num_batched_tokens=8192 limits.prefix_caching=false"
    return f"set limits.max_num_batched_tokens=8192 limits.block_size={size}"


RULES = (
    Rule(
        "block-size-unit",
        "A block is a multiple of what kernels take",
        Severity.refuse,
        block_size_unit,
        "1CatAI/1Cat-vLLM pull request 702; vLLM 0.32 v1/attention/backend.py: MultipleOf",
    ),
    Rule(
        "state-grid",
        "Recurrent states are kept where blocks end",
        Severity.refuse,
        state_grid,
        "1CatAI/1Cat-vLLM documentation of prefix caching with gated delta nets; vLLM 0.32 config/vllm.py",
    ),
    Rule(
        "prefix-grid-coarse",
        "Requests are longer than what prefix caching reuses",
        Severity.warn,
        prefix_grid_coarse,
        "LMCache/LMCache pull request 5042; vLLM 0.32 v1/core/sched/scheduler.py: _mamba_block_aligned_split",
    ),
    Rule(
        "chunk-loses-fast-prefill",
        "Steps have as many rows as the fast prefill takes",
        Severity.warn,
        chunk_loses_fast_prefill,
        "1CatAI/1Cat-vLLM pull request 275",
    ),
)
