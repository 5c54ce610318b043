"""What each engine brings to the formulas: the CPU build of vLLM 0.32 and our SM70 platform on the same sources."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.config.schema.engine import EngineName
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.planning.capacity.caches import Load
from toolkit.planning.capacity.grouping import Layout


@dataclass(frozen=True)
class EngineTraits:
    """Constants of one engine."""

    kernel_block: int
    """Tokens that its attention kernels take at a time; blocks are multiples."""
    default_block: int
    """Tokens of a block where the user names none and no recurrent state asks for more."""
    schedules_ahead: bool
    """A second batch is scheduled while one runs (asynchronous scheduling)."""


TRAITS = {
    EngineName.cpu: EngineTraits(kernel_block=32, default_block=128, schedules_ahead=False),
    EngineName.v100: EngineTraits(kernel_block=16, default_block=16, schedules_ahead=True),
}

_DRAFTS_ON_THE_HOST = ("ngram",)
"""Drafting that needs the accepted tokens on the host, which turns asynchronous scheduling off."""


def load_of(config: DeploymentConfig) -> Load:
    """Make the load that the engine sizes its cache for."""
    limits, traits = config.limits, TRAITS[config.engine.name]
    ahead = traits.schedules_ahead and config.speculative.method not in _DRAFTS_ON_THE_HOST
    return Load(
        max_model_len=limits.max_model_len,
        in_flight_tokens=limits.max_num_batched_tokens * (2 if ahead else 1),
        dcp=config.dcp.size,
    )


def kv_element(config: DeploymentConfig) -> str:
    """Return the KV cache's element type; a 16-bit cache takes the engine's own."""
    return config.engine.dtype if config.kv.dtype == "float16" else config.kv.dtype


def layout_for(sparse: bool, replicated_drafts: bool, load: Load) -> Layout:
    """Return the layout that the engine resolves to.

    Sparse attention declares blocks outermost; so must replicated drafts of another page size beside sharded layers
    (vLLM 0.32, v1/attention/backends/utils.py: resolve_kv_cache_layout). Everything else keeps layers outermost.
    """
    if sparse or (replicated_drafts and load.dcp > 1):
        return Layout.blocks_outermost
    return Layout.layers_outermost
