"""The caches of a draft model: a DFlash2 draft's few layers in 16 bits, or a smaller model's in the target's type."""

from __future__ import annotations

from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.errors import ConfigurationError
from toolkit.planning.capacity.caches import Cache, FullCache, SlidingCache
from toolkit.planning.capacity.engines import kv_element
from toolkit.planning.geometry.model import LayerKind, ModelGeometry
from toolkit.planning.geometry.shards import rank_of


def draft_caches(
    config: DeploymentConfig, draft: ModelGeometry | None, block_tokens: int, kernel_block: int
) -> dict[str, Cache]:
    """List the draft's layers for one rank: from its own configuration, or from what group `speculative` says.

    Raises ConfigurationError if neither says how many layers there are and what a token takes.
    """
    heads, dim, windows = _described(config) if draft is None else _from_geometry(config, draft)
    sharded = config.dcp.size == 1  # beside a sharded target the draft keeps every token on every rank
    block = max(kernel_block, block_tokens // kernel_block * kernel_block)
    dtype = config.engine.dtype if config.speculative.method == "dflash2" else kv_element(config)
    found: dict[str, Cache] = {}
    for index, window in enumerate(windows):
        if window is None:
            found[f"draft.{index}"] = FullCache(block_tokens, heads, dim, dim, dtype, sharded)
        else:
            found[f"draft.{index}"] = SlidingCache(block, heads, dim, dim, dtype, sharded, window=window)
    return found


def _from_geometry(config: DeploymentConfig, draft: ModelGeometry) -> tuple[int, int, list[int | None]]:
    windows = [draft.attention.window if kind is LayerKind.sliding else None for kind in draft.layers]
    return rank_of(draft, config.limits.tensor_parallel).kv_heads, draft.attention.head_dim, windows


def _described(config: DeploymentConfig) -> tuple[int, int, list[int | None]]:
    speculative = config.speculative
    for name in ("draft_layers", "draft_kv_bytes_per_token"):
        if getattr(speculative, name) < 1:
            raise ConfigurationError(
                f"The draft model's KV cache is not described: speculative.{name} is not set.",
                where=f"speculative.{name}",
                fix="bring the draft to this machine, or set the draft's layers and its KV bytes for a token and layer",
            )
    # One head whose keys and values together take those bytes in 16-bit elements: only the product counts.
    return 1, speculative.draft_kv_bytes_per_token // 4, [speculative.draft_window] * speculative.draft_layers
