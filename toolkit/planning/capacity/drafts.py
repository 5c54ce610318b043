"""The caches of a DFlash2 draft model: a few layers of another element type, held whole by every rank."""

from __future__ import annotations

from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.errors import ConfigurationError
from toolkit.planning.capacity.caches import Cache, FullCache, SlidingCache


def draft_caches(config: DeploymentConfig, block_tokens: int, kernel_block: int) -> dict[str, Cache]:
    """List the draft's layers for one rank, from what group `speculative` says of the draft.

    Raises ConfigurationError if it does not say how many layers there are and what a token takes.
    """
    speculative = config.speculative
    for name in ("draft_layers", "draft_kv_bytes_per_token"):
        if getattr(speculative, name) < 1:
            raise ConfigurationError(
                f"The draft model's KV cache is not described: speculative.{name} is not set.",
                where=f"speculative.{name}",
                fix="choose speculative=dflash2, or set the draft's layers and its KV bytes for a token and layer",
            )
    # One head whose keys and values together take those bytes: only the product counts.
    half = speculative.draft_kv_bytes_per_token // 4
    block = max(kernel_block, block_tokens // kernel_block * kernel_block)
    window = speculative.draft_window
    cache: Cache
    if window is None:
        cache = FullCache(block, 1, half, half, "float16", sharded=False)
    else:
        cache = SlidingCache(block, 1, half, half, "float16", sharded=False, window=window)
    return {f"draft.{index}": cache for index in range(speculative.draft_layers)}
